"""Columns of the arrays that pass between the reader's kernels and their callers; tools/shared.py makes C constants."""

# `state`: where a kernel reads, and 1 + where the bytes break a rule, or 0 ...
PLACE, FAULT = 0, 1
# ... of `check_records`: what is too small, or 0, and the size that it needs ...
NEED, ROOM = 2, 3
# ... of `look_up`: how many addresses it has done, frames and chains there are; what is too small, the size it needs
DONE, FRAME_COUNT, CHAIN_COUNT, LACKING, NEEDED = 2, 3, 4, 5, 6
# What is too small.
TABLE_ROOM, NUMBER_ROOM, NODE_ROOM, FRAME_ROOM, CHAIN_ROOM = range(1, 6)

# `table`: a body, then for each member MEMBER_WIDTH numbers and its aliases.
BODY_ENTRY, BODY_FLAGS, BODY_SIZE = range(3)
BODY_WIDTH = 3
MEMBER_NAME, MEMBER_FLAGS, PAYLOAD, PAYLOAD_SIZE, ALIAS_COUNT = range(5)
MEMBER_WIDTH = 5

# `numbers`: so many more than a payload has bytes.
SPARE = 8
# Rows of `nodes`, by number.
PARENT, NODE_NAME, CALL_FILE, CALL_LINE, CALL_COLUMN, LAST_FILE, LAST_LINE, DEPTH = range(8)
NODE_HEIGHT = 8
# Rows of `found`, by address.
NODE, FILE, LINE, COLUMN = range(4)
FOUND_HEIGHT = 4

# `answers`, by address: what is there ...
KIND, FIRST_CHAIN, CHAINS, ENTRY, SIZE, FLAGS = range(6)
ANSWER_WIDTH = 6
NOTHING, ONE, ONE_OR_MORE, SEVERAL = range(4)  # kinds: no function, one, one that may be others, folded ones
# ... the `chains` of it, and the `frames` of these.
FIRST_FRAME, LAST_FRAME = 0, 1
CHAIN_WIDTH = 2
FRAME_NAME, FRAME_FILE, FRAME_LINE, FRAME_COLUMN = range(4)
FRAME_WIDTH = 4
# Chains of folded functions: that of the first; what they have in common; those of all of them.
FIRST, AGREED, EACH = range(3)
