# cython: language_level=3, boundscheck=True, wraparound=False
"""Kernel: runs of ULEB128 values and of call-table entries, both directions.

A call table is a long run of `fixed-width address, ULEB128`, and `.debug_icf` is a handful of plain
ULEB128 columns; read value by value in Python, 100,000 records take a quarter of a second.

A reader here never raises for bad bytes. It returns what it reached, and for a value it refuses
`-1 - position` of that value: the caller reads that one value again through `icf.reader.Reader`,
which then says what is wrong with it. A ULEB128 is refused where `Reader.uleb` refuses it: when it
is cut off, longer than ten bytes, or wider than 64 bits. Padded encodings are well formed.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython


def _uleb_end(buffer, pos, end):
    """Position after the ULEB128 at `pos`, 0 if it is not well formed."""
    shift = 0
    while pos < end:
        byte = buffer[pos]
        pos += 1
        if byte < 0x80:
            if shift == 63 and byte > 1:
                return 0
            return pos
        shift += 7
        if shift > 63:
            return 0
    return 0


def _uleb_value(buffer, pos, stop):
    """The well-formed ULEB128 in `[pos, stop)`, read from its high end so that nothing is shifted out."""
    value = 0
    while stop > pos:
        stop -= 1
        value = (value << 7) | (buffer[stop] & 0x7F)
    return value


def uleb_run(buffer, pos, end, out):
    """Fill `out` from the ULEB128 values at `pos`; the position after them, or -1 - position of a bad one."""
    count = out.shape[0]
    row = 0
    bad = False
    with cython.nogil:
        while row < count:
            stop = _uleb_end(buffer, pos, end)
            if stop == 0:
                bad = True
                break
            out[row] = _uleb_value(buffer, pos, stop)
            pos = stop
            row += 1
    return -1 - pos if bad else pos


def call_run(buffer, pos, end, width, base, site, callee, caller, row):
    """Direct-call entries up to `end` into the columns from `row` on.

    An entry whose call site is 0 sets the caller of those that follow. ULEB128 values are relative
    to `base`; 0 stays 0 in a caller record (no DIE stands there). Returns the row after the last,
    or -1 - position of an entry that is cut off, malformed, or beyond 64 bits.
    """
    current = 0
    limit = 18446744073709551615
    bad = False
    with cython.nogil:
        while pos < end:
            if end - pos <= width:
                bad = True
                break
            address = 0
            byte_idx = width
            while byte_idx > 0:
                byte_idx -= 1
                address = (address << 8) | buffer[pos + byte_idx]
            stop = _uleb_end(buffer, pos + width, end)
            if stop == 0:
                bad = True
                break
            value = _uleb_value(buffer, pos + width, stop)
            if value > limit - base:
                bad = True
                break
            if address == 0:
                current = base + value if value != 0 else 0
            else:
                site[row] = address
                callee[row] = base + value
                caller[row] = current
                row += 1
            pos = stop
    return -1 - pos if bad else row


def slot_run(buffer, pos, end, width, site, slot, row):
    """Virtual-call entries up to `end` into the columns from `row` on; returns as `call_run` does."""
    bad = False
    with cython.nogil:
        while pos < end:
            if end - pos <= width:
                bad = True
                break
            address = 0
            byte_idx = width
            while byte_idx > 0:
                byte_idx -= 1
                address = (address << 8) | buffer[pos + byte_idx]
            stop = _uleb_end(buffer, pos + width, end)
            if stop == 0:
                bad = True
                break
            site[row] = address
            slot[row] = _uleb_value(buffer, pos + width, stop)
            row += 1
            pos = stop
    return -1 - pos if bad else row


def uleb_write(values, out):
    """Write `values` to `out`, ten bytes a value at most; the number of bytes written."""
    count = values.shape[0]
    row = 0
    pos = 0
    with cython.nogil:
        while row < count:
            value = values[row]
            while value >= 0x80:
                out[pos] = (value & 0x7F) | 0x80
                value >>= 7
                pos += 1
            out[pos] = value
            pos += 1
            row += 1
    return pos


def entry_write(sites, values, width, out):
    """Write entries of an address of `width` bytes and a ULEB128 each; the number of bytes written."""
    count = sites.shape[0]
    row = 0
    pos = 0
    with cython.nogil:
        while row < count:
            address = sites[row]
            byte_idx = 0
            while byte_idx < width:
                out[pos] = address & 0xFF
                address >>= 8
                pos += 1
                byte_idx += 1
            value = values[row]
            while value >= 0x80:
                out[pos] = (value & 0x7F) | 0x80
                value >>= 7
                pos += 1
            out[pos] = value
            pos += 1
            row += 1
    return pos
