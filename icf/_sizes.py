"""Sizes of the parts of mangled names: depth << SIZE_BITS | how many bytes a part stands for at most."""

from __future__ import annotations

from icf._types import u64

try:
    import cython
except ImportError:
    from icf import _nocython as cython

SIZE_BITS = 40
SIZE_MASK = (1 << 40) - 1
LIMIT = 1 << 32  # sizes stop there
ONE = 1 << 40  # of depth
TOKEN = 24  # bytes that a letter or two stand for at most
NOT_KNOWN, TOO_DEEP = 1, 2  # why a name is not measured


@cython.inline
@cython.exceptval(check=False)
def plus(first: u64, second: u64) -> u64:
    """Return the size of two parts side by side."""
    depth: u64 = first >> SIZE_BITS
    size: u64 = (first & SIZE_MASK) + (second & SIZE_MASK)
    if second >> SIZE_BITS > depth:
        depth = second >> SIZE_BITS
    if size > LIMIT:
        size = LIMIT
    return depth << SIZE_BITS | size
