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


def hash_references(info, str_, line_str, references, out):
    """FNV-1a (64 bits) of each referenced string into `out`; 0 for no string.

    A reference is kind << 60 | offset, see icf.dwarf._scan. An unterminated string ends with its section.
    """
    n = references.shape[0]
    info_size, str_size, line_str_size = len(info), len(str_), len(line_str)
    with cython.nogil:
        i = 0
        while i < n:
            kind = references[i] >> 60
            pos = references[i] & OFFSET
            value = BASIS
            if kind == 2:
                while pos < str_size and str_[pos] != 0:
                    value = ((value ^ str_[pos]) * PRIME) & MASK
                    pos += 1
            elif kind == 1:
                while pos < info_size and info[pos] != 0:
                    value = ((value ^ info[pos]) * PRIME) & MASK
                    pos += 1
            elif kind == 3:
                while pos < line_str_size and line_str[pos] != 0:
                    value = ((value ^ line_str[pos]) * PRIME) & MASK
                    pos += 1
            else:
                value = 0
            out[i] = value
            i += 1
    return n
