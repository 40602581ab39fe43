"""Columns and codes of the arrays that pass between the DWARF kernels and their callers.

tools/shared.py makes C constants of them.
"""

# Units: a row of `DebugInfo.units`. SHIFT: where `more` begins, 0 for a unit in `info`. REF_BASE is added to
# references to all of .debug_info, REF_LIMIT limits them; SUP_BASE is added to those to a supplementary file, 0 if it
# is not there; STR_KIND to offsets in .debug_str.
OFFSET, END, DIE, VERSION, ADDRESS_SIZE, OFFSET_SIZE, TABLE, UNIT_TYPE, ERROR, ERROR_AT = range(10)
STMT_LIST, NAME, COMP_DIR, STR_BASE, ADDR_BASE, RNGLISTS_BASE, LOW_PC, LANGUAGE, DWO_NAME, FLAGS = range(10, 20)
DWO_ID, SHIFT, REF_BASE, REF_LIMIT, SUP_BASE, STR_KIND, PRODUCER, LOCLISTS_BASE = range(20, 28)
COLUMN_COUNT = 28
# their flags; IS_SPLIT: a skeleton or a split unit; BASES_GIVEN: only NAME, LANGUAGE, PRODUCER,
# DWO_ID come from the unit's DIE
HAS_STMT_LIST, IS_SPLIT, BASES_GIVEN = 1, 2, 4
# their types, as DWARF numbers them
UT_COMPILE, UT_TYPE, UT_PARTIAL, UT_SKELETON, UT_SPLIT_COMPILE, UT_SPLIT_TYPE = range(1, 7)

# Why a unit cannot be read.
ERR_CUT, ERR_RESERVED_LENGTH, ERR_VERSION, ERR_UNIT_TYPE, ERR_ADDRESS_SIZE, ERR_TABLE, ERR_CODE = range(1, 8)
ERR_FORM, ERR_NO_DIE, ERR_SIBLING, ERR_ADDRESS_INDEX, ERR_REFERENCE, ERR_DEPTH = range(8, 14)

# Abbreviation tables: the first four say what to compile, the rest is the result. T_DENSE: 1 if codes are 1, 2, 3 ... |
# first constant << 32. T_ERROR: why the table cannot be read.
T_OFFSET, T_OFFSET_SIZE, T_ADDRESS_SIZE, T_VERSION, T_FIRST, T_COUNT, T_DENSE, T_ERROR = range(8)
TABLE_CUT, TABLE_BROKEN, TABLE_TOO_LARGE, TABLE_FORM = range(1, 5)
OP_COUNT, DECL_COUNT, CONST_COUNT, BUDGET = range(4)  # how much of the outputs is used
# Abbreviations. D_OPS: first operation | end of the operations << 32. D_KIND: kind of DIE | has children << 8.
D_CODE, D_OPS, D_KIND, D_TAG = range(4)
KIND_OTHER, KIND_FUNCTION, KIND_SITE, KIND_UNIT, KIND_TYPE, KIND_INLINED = range(6)

# Operations: how many bytes an attribute takes, and how its value is found in them ...
ENC_SKIP, ENC_FIXED, ENC_ULEB, ENC_SLEB, ENC_STRING, ENC_BLOCK, ENC_ULEB_BLOCK, ENC_PRESENT, ENC_IMPLICIT = range(9)
ENC_INDIRECT = 9
NO_FORM = 0xFFFFFFF  # no operation
# ... what the value is; 0: the attribute is not there ...
CLS_CONSTANT, CLS_ADDRESS, CLS_ADDRESS_INDEX, CLS_STRING, CLS_STR, CLS_LINE_STR, CLS_STR_INDEX = range(1, 8)
CLS_UNIT_REF, CLS_INFO_REF, CLS_OFFSET, CLS_BLOCK, CLS_LIST_INDEX, CLS_SUP, CLS_SIGNATURE = range(8, 15)
# ... and the slot that receives it. The slots of a function:
AT_NAME, AT_LINKAGE_NAME, AT_LOW_PC, AT_HIGH_PC, AT_RANGES, AT_ORIGIN, AT_DECLARATION, AT_EXTERNAL = range(1, 9)
AT_INLINE, AT_DECL_LINE, AT_DECL_FILE, AT_ARTIFICIAL, AT_DECL_COLUMN, AT_CONTAINING_TYPE = range(9, 15)
AT_VTABLE_SLOT, AT_STMT_SEQUENCE = 15, 16
# of a call site; AT_ORIGIN is its callee
AT_RETURN_PC, AT_CALL_PC, AT_TAIL_CALL = 3, 4, 7
# of an inlined call; AT_LOW_PC to AT_ORIGIN are those of a function
AT_CALL_FILE, AT_CALL_LINE, AT_CALL_COLUMN = 7, 8, 9
# of a unit; AT_NAME and AT_LOW_PC are those of a function
AT_STMT_LIST, AT_COMP_DIR, AT_STR_BASE, AT_ADDR_BASE, AT_RNGLISTS_BASE, AT_LANGUAGE = range(4, 10)
AT_DWO_NAME, AT_DWO_ID, AT_PRODUCER, AT_LOCLISTS_BASE = range(10, 14)
# of a type; AT_NAME is that of a function
AT_SIBLING = 31
SLOT_COUNT = 32

# What a scan reads: functions with code, and local ones without, with the call sites in them; the unit
# DIEs only; every subprogram that a unit defines; given functions with their call sites; functions
# with code with the inlined calls in them; given DIEs.
READ_SITES, READ_UNIT_DIES, READ_SUBPROGRAMS, READ_SITES_OF, READ_INLINED, READ_DIES = range(6)

# Rows of functions. S_FLAGS: flags | unit << 32. A scan that reads single DIEs, or every subprogram, fills all columns,
# every other one the first S_COUNT; READ_INLINED has S_ADDRESS_IDX instead of the origin, and S_SEQUENCE.
S_DIE, S_LOW, S_HIGH, S_RANGES, S_FLAGS, S_ORIGIN, S_NAME, S_LINKAGE_NAME = range(8)
S_DECL_LINE, S_DECL_FILE, S_DECL_COLUMN, S_TAG, S_CONTAINING_TYPE, S_VTABLE_SLOT = range(8, 14)
S_ADDRESS_IDX, S_SEQUENCE = 5, 6
S_COUNT, S_COUNT_INLINED, S_COUNT_ALL = 6, 7, 14
# their flags; of the last three that are about ranges an inlined call has the same
HAS_LOW, RANGES_AT, RANGES_INDEX, DECLARATION, EXTERNAL, INLINE, ARTIFICIAL, FAILED = (1 << bit for bit in range(8))

# Rows of call sites. C_CALLER: row of the function | flags << 32; only READ_SITES_OF has C_SCOPE.
C_PC, C_ORIGIN, C_CALLER, C_SCOPE = range(4)
C_COUNT, C_COUNT_SCOPED = 3, 4
TAIL_CALL, AT_INSTRUCTION, NO_CALLER = 1, 2, 4
# Rows of inlined calls. I_OWNER: row of the function | row of the inlined call around it + 1 << 32.
# I_PLACE: call_file | call_line << 32. I_FLAGS: call_column | flags << 32, as of functions.
I_LOW, I_HIGH, I_ORIGIN, I_OWNER, I_PLACE, I_FLAGS = range(6)
I_COUNT = 6

# Rows of DIEs and of those below them. L_OWNER: index of the DIE that was asked for. L_OFFSET, L_SIZE: 1 + the
# constant, 0 for none. L_PLACE: the list or the register that DW_AT_location has; a flag says which it is.
L_OWNER, L_DIE, L_TAG, L_TYPE, L_FLAGS, L_OFFSET, L_SIZE, L_ORIGIN, L_PLACE = range(9)
L_COUNT = 9
L_METHOD, L_VIRTUAL, L_STATIC, L_FAILED, L_LIST, L_LIST_INDEX, L_REGISTER = (1 << bit for bit in range(7))
# their slots; AT_SIBLING is not among them
LT_LINKAGE_NAME, LT_TYPE, LT_LOCATION, LT_SIZE, LT_OBJECT_POINTER = range(1, 6)
LT_VIRTUALITY, LT_EXTERNAL, LT_ORIGIN, LT_PLACE = range(6, 10)
LT_COUNT = 10
TAG_VARIABLE = 0x34
TAG_FORMAL_PARAMETER, TAG_MEMBER, TAG_INHERITANCE, TAG_SUBPROGRAM = 0x05, 0x0D, 0x1C, 0x2E

# What a scan returns: the next unit (or pick), how many rows it has filled; its scratch memory follows.
R_NEXT, R_FUNCTIONS, R_SITES = range(3)
R_VALUES = 3
R_SIZE = R_VALUES + 2 * SLOT_COUNT
