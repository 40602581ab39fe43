"""What the writer of stacks reports to its caller, and the characters that it writes (`_stacks`)."""

from __future__ import annotations

AT, OUT_BYTES = range(2)
STATE_WIDTH = 2

LINE_FEED, SPACE, NUMBER_SIGN, ZERO = 10, 32, 35, 48
