# cython: language_level=3, boundscheck=True, wraparound=False
"""True addresses in place of tombstones.

lld overwrites every reference from debug info to a folded function with 0 (1 in range lists), but keeps the
relocation when linking with --emit-relocs; symbol + addend is the address of the body.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython


def patch_tombstones(section, rela, absolute64, symbol_value, patched):
    """Put true addresses over the tombstones in `section` (writable bytes).

    `rela` holds Elf64_Rela entries as u64[n, 3]; `absolute64` is the type of a 64-bit absolute relocation. Symbol 0
    stands for a function that is not in the image. Gives the number of words patched; their offsets are in
    `patched` as far as it reaches.
    """
    n = rela.shape[0]
    count = 0
    size = section.shape[0]
    with cython.nogil:
        i = 0
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


def word(buf, pos, size):
    """The little-endian unsigned integer of `size` bytes at `pos`, which the caller has checked."""
    value = 0
    i = 0
    while i < size:
        value |= as_u64(buf[pos + i]) << (8 * i)
        i += 1
    return value


def as_u64(value):
    return value
