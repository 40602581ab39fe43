"""Stores the errors of the kernels of line tables."""

from __future__ import annotations

from icf._types import u64
from icf.dwarf import line_columns as col

try:
    import cython
except ImportError:
    from icf import _nocython as cython


@cython.inline
def fail(units: u64[:, ::1], unit: cython.size_t, error: u64, at: u64, value: u64) -> cython.int:
    """Store the reason why a unit cannot be read, or its program not be run."""
    units[unit, col.ERROR] = error
    units[unit, col.ERROR_AT] = at
    units[unit, col.ERROR_VALUE] = value
    return 0
