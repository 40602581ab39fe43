# Written by tools/shared.py from _bytes.py: change that.

from icf._types cimport Bytes, i64, u64

cdef inline u64 as_u64(i64 value) noexcept nogil:
    return value & MASK

cdef inline u64 word(Bytes buffer, size_t pos, size_t size_bytes) noexcept nogil:
    cdef u64 value
    cdef u64 byte
    cdef size_t i
    value = 0
    i = 0
    while i < size_bytes:
        byte = buffer[pos + i]
        value |= byte << 8 * i
        i += 1
    return value

cdef inline (u64, size_t) uleb(Bytes buffer, size_t pos, size_t end) noexcept nogil:
    cdef u64 value
    cdef u64 byte
    cdef unsigned int shift
    value = 0
    shift = 0
    while pos < end:
        byte = buffer[pos]
        pos += 1
        if shift == 63 and byte > 1:
            return (0, end + 2)
        value |= (byte & 127) << shift
        if byte < 128:
            return (value, pos)
        shift += 7
    return (0, end + 1)

cdef inline (u64, size_t) leb(Bytes buffer, size_t pos, size_t end) noexcept nogil:
    cdef u64 value
    cdef u64 byte
    cdef unsigned int shift
    value = 0
    shift = 0
    while pos < end:
        byte = buffer[pos]
        pos += 1
        value |= (byte & (1 if shift == 63 else 127)) << shift
        if byte < 128:
            return (value, pos)
        if shift == 63:
            return (0, end + 2)
        shift += 7
    return (0, end + 1)

cdef inline u64 sign_extended(u64 value, u64 last, size_t size_bytes) noexcept nogil:
    cdef u64 bits
    cdef u64 half
    bits = 1
    half = 1
    if last & 64 and size_bytes < 10:
        bits <<= 7 * size_bytes
        half <<= 63
        value |= half - bits + half
    return value

cdef inline size_t entry_at(Bytes table, u64 base, u64 index, u64 size_bytes) noexcept nogil:
    cdef size_t limit
    limit = len(table)
    if base > limit or index >> 40 != 0 or (index + 1) * size_bytes > limit - base:
        return limit
    return base + index * size_bytes

cdef inline size_t put_uleb(unsigned char[::1] out, size_t pos, u64 value) nogil:
    while value >= 128:
        out[pos] = value & 127 | 128
        pos += 1
        value >>= 7
    out[pos] = value
    return pos + 1

cdef enum:
    MASK = 0xffffffffffffffff
