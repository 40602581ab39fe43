"""Which DIEs a scan reads, and which function and inlined call surround them: the stack of `_scan`."""

from __future__ import annotations

from icf._types import u64
from icf.dwarf import columns as col

try:
    import cython
except ImportError:
    from icf import _nocython as cython

# Instead of the row of a function; not -1, which Cython would check for an exception.
OUTSIDE_OF_FUNCTIONS, NOT_STORED = -2, -3


@cython.inline
def has_no_code(unit_type: u64) -> cython.bint:
    """Return whether a unit holds no code, or is a skeleton whose code the split unit describes."""
    return unit_type == col.UT_TYPE or unit_type == col.UT_SPLIT_TYPE or unit_type == col.UT_SKELETON


@cython.inline
def reads(mode: cython.int, kind: u64) -> cython.bint:
    """Return whether a DIE of this kind may fill a row."""
    if mode == col.READ_DIES or kind == col.KIND_FUNCTION:
        return True
    return kind == col.KIND_INLINED if mode == col.READ_INLINED else kind == col.KIND_SITE


@cython.inline
def function_around(stack: cython.int[::1], depth: cython.size_t, kind: u64, row: cython.longlong) -> cython.int:
    """Return the row of the function that code in the children of a DIE belongs to.

    NOT_STORED if that function has no row. gcc puts the methods of a function's own classes inside of the class, so
    only a type outside of all functions may be stepped over.
    """
    if kind == col.KIND_FUNCTION:
        return row
    if depth == 0:
        return OUTSIDE_OF_FUNCTIONS
    if kind == col.KIND_TYPE and stack[depth - 1] >= 0:
        return NOT_STORED
    return stack[depth - 1]


@cython.inline
def inlined_around(
    stack: cython.int[::1], depth: cython.size_t, room: cython.size_t, kind: u64, n_sites: cython.size_t
) -> cython.int:
    """Return the row of the inlined call around the children of a DIE, plus 1; 0 if there is none."""
    if kind == col.KIND_INLINED and depth > 0 and stack[depth - 1] >= 0:
        return n_sites
    if kind == col.KIND_FUNCTION or depth == 0:
        return 0
    return stack[room + depth - 1]
