# cython: language_level=3, boundscheck=True, wraparound=False
"""True addresses in place of tombstones.

lld overwrites every reference from debug info to a folded function with 0 (1 in range lists), but keeps the
relocation when linking with --emit-relocs; symbol + addend is the address of the body.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, word
    from cython.cimports.icf._types import Bytes, u64
else:
    from icf._bytes import MASK, word
    from icf._types import Bytes, u64


@cython.ccall
def find_tombstones(
    section: Bytes,
    first: u64,
    rela: cython.const[u64][:, ::1],
    symbol_value: cython.const[u64][::1],
    found: u64[:, ::1],
) -> cython.Py_ssize_t:
    """Find the tombstones in `section`, the bytes from `first` on, that relocations know better.

    `rela` holds Elf64_Rela entries as u64[n, 3], all of them 64-bit absolute ones. Symbol 0 stands for a function that
    is not in the image. Return how many there are; `found`, which has as many rows as `rela`, gets the offset and the
    true value of each.
    """
    count: cython.size_t = 0
    size: cython.size_t = section.shape[0]
    n: cython.size_t = rela.shape[0]
    i: cython.size_t = 0
    offset: u64
    symbol: u64
    with cython.nogil:
        while i < n:
            offset = (rela[i, 0] - first) & MASK
            symbol = rela[i, 1] >> 32
            if symbol != 0 and symbol < symbol_value.shape[0] and size >= 8 and offset <= size - 8:
                if word(section, offset, 8) <= 1:
                    found[count, 0] = rela[i, 0]
                    found[count, 1] = (symbol_value[symbol] + rela[i, 2]) & MASK
                    count += 1
            i += 1
    return count


@cython.ccall
def put_words(
    room: cython.uchar[::1], first: u64, offset: cython.const[u64][::1], value: cython.const[u64][::1]
) -> cython.Py_ssize_t:
    """Put words into `room`, the bytes from `first` on, as far as they are in it; return how many words there are."""
    n: cython.size_t = offset.shape[0]
    i: cython.size_t = 0
    j: cython.size_t
    at: u64
    with cython.nogil:
        while i < n:
            j = 0
            while j < 8:
                at = (offset[i] + j - first) & MASK
                if at < room.shape[0]:
                    room[at] = (value[i] >> (8 * j)) & 0xFF
                j += 1
            i += 1
    return n
