"""Hash tables in columns, as kernels look keys up in them: `unwind.samples.columns` has their form."""

from __future__ import annotations

from icf._bytes import MASK
from icf._types import u64
from unwind.samples.columns import NODE_COUNT, NUMBER_BITS

try:
    import cython
except ImportError:
    from icf import _nocython as cython

FACTOR = 0xD6E8FEB86659FD93  # odd: hashing multiplies by it


@cython.inline
@cython.exceptval(check=False)
def hashed(value: u64, more: u64) -> u64:
    """Return a number of which all bits depend on all bits of both."""
    factor: u64 = FACTOR
    value = (value ^ more << 48 ^ more) & MASK
    value = ((value ^ value >> 32) * factor) & MASK
    value = ((value ^ value >> 32) * factor) & MASK
    return value ^ value >> 32


@cython.inline
@cython.exceptval(check=False)
def place_of(table: u64[:, ::1], key: u64) -> cython.size_t:
    """Return the row of a key, or the free one where it belongs."""
    mask: u64 = table.shape[0] - 1
    place: u64 = hashed(key, 0) & mask
    while table[place, 0] != 0 and table[place, 0] != key + 1:
        place = (place + 1) & mask
    return place


@cython.inline
@cython.exceptval(check=False)
def node_after(node: u64, number: u64, tree: u64[:, ::1], nodes: u64[::1], state: u64[::1]) -> u64:
    """Return the node of a number after a node, which is added if it is not there; the caller has left room for it."""
    key: u64 = node << NUMBER_BITS | number
    place: cython.size_t = place_of(tree, key)
    if tree[place, 0] == 0:
        tree[place, 0] = key + 1
        tree[place, 1] = state[NODE_COUNT]
        nodes[state[NODE_COUNT]] = key
        state[NODE_COUNT] += 1
    return tree[place, 1]
