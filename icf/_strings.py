# cython: language_level=3, boundscheck=True, wraparound=False
"""Hashes of strings that are given by reference, so that names are compared in bulk without being decoded."""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

MASK = 0xFFFFFFFFFFFFFFFF
OFFSET = (1 << 60) - 1
PRIME = 0x100000001B3
BASIS = 0xCBF29CE484222325


def _hash(text, start, of_kin):
    """FNV-1a (64 bits) of the string at `start`, which ends with a NUL or with its section."""
    size = len(text)
    value = BASIS
    above = 0  # the byte before
    above_that = 0
    pos = start
    while pos < size and text[pos] != 0:
        byte = text[pos]
        if of_kin:
            if byte == 0x2E and pos > start:  # .
                break
            if 0x31 <= byte <= 0x35 and (  # 1 to 5
                above == 0x43 or above == 0x44 or (above == 0x49 and above_that == 0x43)  # C D CI
            ):
                byte = 0x3F
            above_that = above
            above = text[pos]
        value = ((value ^ byte) * PRIME) & MASK
        pos += 1
    return value


def hash_references(info, str_, line_str, references, of_kin, out):
    """The hash of each referenced string into `out`; 0 for no string.

    A reference is kind << 60 | offset, see icf.dwarf._scan. With `of_kin`, names that icf.aliases.kin holds for
    one get one hash: what follows a dot is left out, and any digit that may tell constructors apart counts the same.
    """
    n = references.shape[0]
    with cython.nogil:
        i = 0
        while i < n:
            kind = references[i] >> 60
            start = references[i] & OFFSET
            if kind == 2:
                out[i] = _hash(str_, start, of_kin)
            elif kind == 1:
                out[i] = _hash(info, start, of_kin)
            elif kind == 3:
                out[i] = _hash(line_str, start, of_kin)
            else:
                out[i] = 0
            i += 1
    return n
