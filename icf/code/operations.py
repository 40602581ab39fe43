"""Operations that the decoders make of instructions, and what `_flow` finds in them: columns and codes of the rows.

tools/shared.py makes C constants of them. Registers are numbered as in the encoding; one more than the machine has
is a temporary of the decoder.
"""

# Operations: rows of six numbers. AT is the offset in the function.
KIND, A, B, C, VALUE, AT = range(6)
COLUMN_COUNT = 6

KILL = 0  # a: bits of registers that change
COPY = 1  # register a is b
ADD = 2  # a is b + value
SUM = 3  # a is b + c + value
CONST = 4  # a is value
LOAD = 5  # a is 8 bytes at b + value (b -1: value)
INDEXED = 6  # a is an entry of the table at b + value (b -1: value); c: its size, SIGNED_ENTRY more if signed
SCALED_SUM = 7  # a is b + (c << value % 64); value has SIGNED_INDEX if c counts as signed
STORE = 8  # a bytes at register b + value: register c or -1
STORE_ANY = 9  # to somewhere
CALL = 10  # c: inside of the function, at offset value
CALL_VALUE = 11  # of register b; value: bytes of the instruction
JUMP = 12  # c: inside, at offset value; else it leaves
BRANCH = 13  # the same, or goes on
JUMP_VALUE = 14  # to register b
STOP = 15  # nothing follows
BAD = 16  # no instruction: the function cannot be read
FORGET = 17  # everything changes
SIGNED_ENTRY, SIGNED_INDEX, SHIFT = 16, 256, 63

# What `_flow` finds: rows of numbers. FOUND_SLOT: 1 + the slot of a vtable, 0 if none is known. Where there is one, the
# object is found as `loads` from where a register points to on entry: FOUND_ROOT is 1 + that register, 0 if it is not
# known; each load adds one of the offsets, and the last offset leads to the object. ANY_ELEMENT is an offset that
# differs, as of a pointer that a loop moves, or with an index.
FOUND, FOUND_AT, FOUND_SLOT, FOUND_STACK, FOUND_MORE, FOUND_ROOT, FOUND_LOADS, FOUND_OFFSET = range(8)
LOADS_MAX = 3
ANY_ELEMENT = 1 << 62
FOUND_COLUMN_COUNT = 11  # FOUND_OFFSET and LOADS_MAX more
CALLS_VALUE = 1  # the address is its end
JUMPS_TO_VALUE = 2  # FOUND_STACK, see below; FOUND_MORE: 1 if the target was loaded from a known offset of an argument
JUMPS_BY_TABLE = 3  # FOUND_SLOT: where that is; FOUND_STACK: size of its entries, SIGNED_ENTRY, TIMES_4 more;
TIMES_4 = 32  # FOUND_MORE: what they add to
JUMPS_TO_FIXED = 4  # to what a fixed place holds: FOUND_SLOT
JOINS_VALUE = 5  # one of the paths that meet before a jump to a value: what that is on this path, as of JUMPS_TO_VALUE
HOLDS_OBJECT = 6  # a register that points to the object of the call or jump at that address; FOUND_MORE: size of a call
CALLS_FUNCTION = 7  # what CALLS_VALUE at that address calls: FOUND_SLOT; FOUND_MORE: what formed its address
CALLS_FIXED = 8  # the same, loaded from a fixed place: FOUND_SLOT; FOUND_MORE: what loads it
TAIL_ROWS = 24  # of operations between where paths meet and the jump
NO_TAIL = -2  # not -1: to see whether that is an exception, Cython takes the interpreter lock
AS_ON_ENTRY, MOVED, UNKNOWN = range(3)  # the stack pointer; MOVED also where the value comes from an unknown table

# Machines: how many registers, and one more; which of them; bits of registers.
REGISTER_COUNT, STACK_POINTER, FIRST_ARGUMENT, SECOND_ARGUMENT, KEPT, EVERYTHING, ARGUMENTS = range(7)

# What `follow` returns: the function to go on with, how many rows it has found, and what was too small; after that, its
# scratch memory, how many values and sums it remembers.
NEXT, FOUND_COUNT, SHORT_OF, KNOWN, SUMS = range(5)
RESULT_SIZE = 5
LABELS, FOUND_ROWS = 1, 2
KEEP = 16  # values, and sums, that are remembered
# its status of a function
UNREADABLE, NOT_FOLLOWED = 1, 2
