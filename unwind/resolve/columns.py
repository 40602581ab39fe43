"""Numbers in the table of a resolver's steps, which a kernel follows (`unwind.resolve._follow`)."""

from __future__ import annotations

HELD = 0x80000000  # of a step after its caller: the answers for a stack with it follow from the whole stack
STEP_MASK = 0x7FFFFFFF

# Kinds of frames: a program counter; in place of an address the number of a frame that is not an address alone
INNERMOST, NUMBERED = 1, 2
KIND_BITS = 2
