# cython: language_level=3, boundscheck=True, wraparound=False
"""Runs DWARF expressions, for readers of parameters: where those of call frame information run is in `_walk`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.unwind.walk._operations import operate
else:
    from icf._types import Bytes, u64
    from unwind.walk._operations import operate


@cython.ccall
def run(
    expression: Bytes,
    pos: cython.size_t,
    registers: cython.const[u64][::1],
    known: u64,
    stack: u64[::1],
    depth: cython.size_t,
    left: cython.size_t,
) -> tuple[u64, cython.size_t, cython.size_t, cython.size_t]:
    """Run an expression from `pos` on, as `unwind.walk._operations.operate` does, which says what is returned.

    registers  by DWARF number; bit n of `known` says whether register n is known
    stack      u64[STACK_LIMIT], of which `depth` are used
    """
    return operate(expression, 0, pos, expression.shape[0], registers, 0, known, stack, 0, depth, left)
