"""Numbers in the table of a resolver's steps, which a kernel follows (`unwind.resolve._follow`)."""

from __future__ import annotations

# A step after its caller, in the low 32 bits; above them the number of its state
HELD = 0x80000000  # the answers for a stack with it follow from the whole stack
STEP_MASK = 0x7FFFFFFF
STATE_BIT = 32

# Kinds of frames: a program counter; in place of an address the number of a frame that is not an address alone
INNERMOST, NUMBERED = 1, 2
KIND_BITS = 2
