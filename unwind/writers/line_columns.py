"""The columns of a tree of names that is written as lines, as the kernel has them.

A row for each node; node 0 is the caller of all. CALLER, FIRST: of those inwards of it, FOLLOWING: the next one of the
same caller; 0: none. NAME, and where in the bytes of all counts its own starts and ends: where it does not count, both
are the same.
"""

from __future__ import annotations

CALLER, FIRST, FOLLOWING, NAME, COUNT_START, COUNT_END = range(6)
WIDTH = 6

NODE, PATH_BYTES, OUT_BYTES = range(3)  # the state
STATE_WIDTH = 3

SEPARATOR = 59  # ";"
