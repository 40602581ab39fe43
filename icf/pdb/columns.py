"""Columns and codes of the arrays that pass between the kernels for PDBs and their callers.

tools/shared.py makes C constants of them.
"""

# Procedures: place of the record in its stream, segment:address, bytes of code, place and bytes of the name, type,
# kind, and its inlined calls: rows of the sites.
P_RECORD, P_SEGMENT, P_ADDRESS, P_SIZE, P_NAME, P_NAME_BYTES, P_TYPE, P_KIND, P_FIRST_SITE, P_LAST_SITE = range(10)
PROCEDURE_WIDTH = 10
GLOBAL, LOCAL, THUNK = range(3)  # kinds; a thunk jumps to an imported function

# Inlined calls: row of the procedure, how many rows above the call is that it lies in (0: none), number of the inlined
# function, place of the annotations.
S_PROCEDURE, S_UP, S_INLINEE, S_START, S_END = range(5)
SITE_WIDTH = 5

# Public symbols.
U_RECORD, U_SEGMENT, U_ADDRESS, U_FLAGS, U_NAME, U_NAME_BYTES = range(6)
PUBLIC_WIDTH = 6
IS_CODE, IS_FUNCTION = 1, 2  # flags

# Runs of line rows of one file, with the offset of the subsection that has them, and the rows; a row's address counts
# from the start of its segment.
F_SEGMENT, F_ADDRESS, F_SIZE, F_FILE, F_FIRST_ROW, F_LAST_ROW, F_SUBSECTION = range(7)
RUN_WIDTH = 7
L_ADDRESS, L_LINE, L_COLUMN = range(3)
LINE_WIDTH = 3

# Inlined functions that a module has: number, file, line.
I_FUNCTION, I_FILE, I_LINE = range(3)
INLINEE_WIDTH = 3

# Code of inlined calls: row of the site, first address and the one after the last from the start of the procedure,
# file, lines below that of the inlined function (64 bits, signed), column.
A_SITE, A_LOW, A_HIGH, A_FILE, A_LINE, A_COLUMN = range(6)
ANNOTATION_WIDTH = 6
SAME_FILE = 0xFFFFFFFF  # A_FILE: the file of the inlined function

# `used`: rows of the outputs; why reading stopped, and where; where the table of files is
FIRST_COUNT, SECOND_COUNT, THIRD_COUNT, ERROR, ERROR_AT, FILES_START, FILES_END = range(7)
USED_WIDTH = 7
ERR_LENGTH, ERR_SHORT, ERR_SITE, ERR_BLOCK = range(1, 5)
