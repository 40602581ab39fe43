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
    from cython.cimports.icf._bytes import word
    from cython.cimports.icf._types import u64
else:
    from icf._bytes import word
    from icf._types import u64


@cython.ccall
def patch_tombstones(
    section: cython.uchar[::1],
    rela: cython.const[u64][:, ::1],
    absolute64: u64,
    symbol_value: cython.const[u64][::1],
    patched: u64[::1],
) -> cython.Py_ssize_t:
    """Put true addresses over the tombstones in `section` (writable bytes).

    `rela` holds Elf64_Rela entries as u64[n, 3]; `absolute64` is the type of a 64-bit absolute relocation. Symbol 0
    stands for a function that is not in the image. Return the number of words patched; `patched` gets their offsets, as
    many as it has room for.
    """
    count: cython.size_t = 0
    size: cython.size_t = section.shape[0]
    n: cython.size_t = rela.shape[0]
    i: cython.size_t = 0
    j: cython.size_t
    offset: u64
    symbol: u64
    value: u64
    with cython.nogil:
        while i < n:
            if rela[i, 1] & 0x7FFFFFFF == absolute64:
                offset = rela[i, 0]
                symbol = rela[i, 1] >> 32
                if symbol != 0 and symbol < symbol_value.shape[0] and size >= 8 and offset <= size - 8:
                    if word(section, offset, 8) <= 1:
                        value = symbol_value[symbol] + rela[i, 2]
                        j = 0
                        while j < 8:
                            section[offset + j] = (value >> (8 * j)) & 0xFF
                            j += 1
                        if count < patched.shape[0]:
                            patched[count] = offset
                        count += 1
            i += 1
    return count
