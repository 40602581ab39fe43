"""Kinds of direct branches; tools/shared.py makes C constants of them."""

CALL, JUMP, CONDITIONAL_JUMP = 1, 2, 3
