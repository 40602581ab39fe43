"""Units of which only line tables were asked for (-g1 of clang and rustc): they describe few of their functions.

    -g     DW_TAG_subprogram    DW_AT_decl_file, DW_AT_decl_line ...    and types, parameters, variables
    -g1    DW_TAG_subprogram    lines of declarations alone             no types

Only functions in which others are inlined are described then. So where a unit has code, and no abbreviation for the
line of a function that it defines, nor for types, parameters or variables, there may be functions that no DIE shows.
gcc describes all functions at -g1, with their lines.
"""

from __future__ import annotations

import numpy as np

from icf.columns import I64, Mask
from icf.dwarf import columns as col
from icf.dwarf.units import DebugInfo
from icf.sets import is_one_of

_ASSEMBLER = 0x8001  # DW_LANG_Mips_Assembler, which all assemblers write: their functions have no lines
# formal_parameter, class_type, structure_type, base_type, variable
_TAGS = (0x05, 0x02, 0x13, 0x24, 0x34)
_SLOT_BIT, _SLOT_MASK = np.uint32(4), np.uint32(31)
_LOW = np.uint64(0xFFFFFFFF)


def has_lines_only(debug: DebugInfo) -> Mask:
    """Return which units describe only some of their functions; a skeleton does not count, its `.dwo` does."""
    units = debug.units
    kind = debug.decls[:, col.D_KIND] & np.uint64(0xFF)
    is_function, is_unit = kind == col.KIND_FUNCTION, kind == col.KIND_UNIT
    defines = is_function & _has(debug, col.AT_DECL_LINE) & ~_has(debug, col.AT_DECLARATION)
    defines |= is_one_of(debug.decls[:, col.D_TAG], _TAGS)
    is_in_doubt = is_function | (is_unit & _has(debug, col.AT_LOW_PC))  # has code
    first = debug.tables[:, col.T_FIRST].astype(np.int64)
    end = first + debug.tables[:, col.T_COUNT].astype(np.int64)
    doubts, lines = _count(is_in_doubt, first, end), _count(defines, first, end)
    found: Mask = ((doubts > 0) & (lines == 0))[units[:, col.TABLE].astype(np.int64)]
    is_split = (units[:, col.FLAGS] & np.uint64(col.IS_SPLIT) != 0) & (units[:, col.DWO_NAME] != 0)
    found &= ~is_split & (units[:, col.LANGUAGE] != _ASSEMBLER) & (units[:, col.ERROR] == 0)
    return found


def _has(debug: DebugInfo, slot: int) -> Mask:
    """Return which abbreviations have an attribute for a slot."""
    is_it = (debug.ops >> _SLOT_BIT) & _SLOT_MASK == slot
    span = debug.decls[:, col.D_OPS]
    return _count(is_it, (span & _LOW).astype(np.int64), (span >> np.uint64(32)).astype(np.int64)) > 0


def _count(marks: Mask, first: I64, end: I64) -> I64:
    """Return how many of the marks there are from each first to each end."""
    total: I64 = np.append(0, np.cumsum(marks))
    counts: I64 = total[end] - total[first]
    return counts
