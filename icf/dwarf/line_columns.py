"""Columns and codes of the arrays that pass between the kernels for .debug_line and `line_scan`.

tools/shared.py makes C constants of them.
"""

# Units: what `_line_header` finds ...
VERSION, END, PROGRAM, OPCODE_LENGTHS, MIN_INST_LENGTH, MAX_OPS, DEFAULT_IS_STMT, LINE_BASE, LINE_RANGE = range(9)
OPCODE_BASE, FIRST_DIRECTORY, FIRST_FILE, END_OF_FILES, ERROR, ERROR_AT, ERROR_VALUE = range(9, 16)
# ... and `_line`. TAKEN_BACK: how many rows; FIRST_DEFINED: of `defined`
FIRST_ROW, END_OF_ROWS, FIRST_SEQUENCE, END_OF_SEQUENCES, TAKEN_BACK, FIRST_DEFINED, END_OF_DEFINED = range(16, 23)
COLUMN_COUNT = 23

# Why a unit cannot be read: its header or tables, or its program.
ERR_CUT, ERR_RESERVED_LENGTH, ERR_LENGTH, ERR_VERSION, ERR_HEADER_LENGTH, ERR_FIELD, ERR_ULEB, ERR_FORM = range(1, 9)
ERR_PATH_FORM, ERR_PATH, ERR_OFFSET, ERR_ENTRIES = range(9, 13)
ERR_ROWS, ERR_OPCODE, ERR_LEB, ERR_OPERAND, ERR_EXTENDED, ERR_ADDRESS_SIZE, ERR_LINE_RANGE = range(13, 20)

# Entries of directory and file tables. E_SECTION: where the path is; E_PATH: its offset there.
E_SECTION, E_PATH, E_DIRECTORY = range(3)
E_COUNT = 3
NO_PATH, IN_LINE, IN_LINE_STR, IN_STR = range(4)

# Sequences: rows within the unit, marks of `line.SequenceMark`, offset of the first opcode.
Q_START, Q_END, Q_FIRST_ROW, Q_END_OF_ROWS, Q_MARKS, Q_OFFSET = range(6)
Q_COUNT = 6
DEAD, UNORDERED = 1, 2

# Flags of a row.
IS_STMT, END_SEQUENCE, BASIC_BLOCK, PROLOGUE_END, EPILOGUE_BEGIN = (1 << bit for bit in range(5))

# What the parts of a kernel pass to each other: how much of the outputs is used, and where they are.
S_ENTRIES, S_POS = 0, 1
S_ROWS, S_SEQUENCES, S_DEFINED = range(3)
S_COUNT = 3
