"""The columns of a frame that was unwound, the state of a walk, and why it ends.

A frame is u64[FRAME_WIDTH]: PC, CFA, FLAGS, KNOWN (a bit for each register whose value is known), then the registers as
they were in this frame, numbered as DWARF does.
"""

from __future__ import annotations

PC, CFA, FLAGS, KNOWN, REGISTERS = range(5)
FRAME_WIDTH = 37  # REGISTERS + REGISTER_COUNT

# Bits of FLAGS
IS_EXACT = 1  # the address is a program counter: that of the innermost frame, or where a signal interrupted
LOSES_CALLER = 2  # an unwinder that follows frame pointers would have left out the caller of this frame
IS_SIGNAL = 4  # the code that a signal handler returns to

# The state of a walk: of the frame to look at next
COUNT, STATE_KNOWN, LAST_CFA, STATE_FLAGS, WANTED, MACHINE_IS_AARCH64, EXACT_COUNT, STATE_REGISTERS = range(8)
STATE_WIDTH = 40  # STATE_REGISTERS + REGISTER_COUNT

# A copy of a stack with its registers: where in the bytes at hand they are, where its addresses were stored, and how
# many of these are program counters
COPY_REGISTERS, COPY_STACK, COPY_BYTES, COPY_START, COPY_END, COPY_EXACT = range(6)
COPY_WIDTH = 6

# Why a walk pauses, or ends
(
    NEEDS_STEP, END_OF_STACK, NO_CALL_FRAMES, NO_MEMORY, NOT_GROWING, BAD_EXPRESSION, OUT_OF_FRAMES,
) = range(7)  # fmt: skip

# Why an expression pauses, or ends
NO_OPERATION, OTHER_OPERATION, UNKNOWN_REGISTER, BAD_OPERATION = range(4)

STACK_LIMIT = 64  # values of an expression
OPERATION_LIMIT = 1000
