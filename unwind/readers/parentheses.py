"""Names of C++ functions in parentheses, which have parentheses themselves."""

from __future__ import annotations

_NAME_BYTES = 1 << 14


def opening_of(text: bytes, closing: int) -> int:
    """Return where the parenthesis begins that ends at `closing`; -1 if it does not, or is longer than any name."""
    depth = 0
    for at in range(closing, max(closing - _NAME_BYTES, -1), -1):
        if text[at] == ord(")"):
            depth += 1
        elif text[at] == ord("("):
            depth -= 1
            if depth == 0:
                return at
    return -1
