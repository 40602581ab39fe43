"""Columns of the arrays that pass between `_encode` and its caller; tools/shared.py makes C constants of them."""

# Pieces of code that payloads are of: the places of a piece, and which rows of other arrays are its own.
START, END, FIRST_RANGE, LAST_RANGE, FIRST_NODE, LAST_NODE, FIRST_ROW, LAST_ROW = range(8)
PIECE_WIDTH = 8
# Of each payload: where it ends, and where its columns begin
PAYLOAD_END, COLUMNS_START = 0, 1
# Rows of `segments`: where each begins, and the node + 1 that has it, 0 for the function itself
SEGMENT_START, SEGMENT_NODE = 0, 1
# Rows of `scratch`: by node its number in the payload, 0 for a node that has no code; nodes or ranges that wait; by
# number the node, its parent, its depth, the file and line that it had last
NUMBER, STACK, NODE, PARENT, DEPTH, LAST_FILE, LAST_LINE = range(7)
SCRATCH_HEIGHT = 7
