# cython: language_level=3, boundscheck=True, wraparound=False
"""Reads the lines of a module (C13), the functions inlined in it, and the code of inlined calls.

    subsection         u32 kind, u32 bytes, contents, padded to 4
    0xf2 lines         u32 offset, u16 segment, u16 flags (1: columns), u32 code bytes; then blocks, one for each file:
                       u32 file, u32 rows, u32 bytes, rows of u32 offset, u32 line and flags; then u16 columns, 2 a row
    0xf4 files         u32 name, u8 bytes of the checksum, u8 kind, checksum, padded to 4; a file is its offset here
    0xf6 inlined       u32 signature (1: more files), then u32 function, u32 file, u32 line

Binary annotations are the code of an inlined call: numbers of one, two or four bytes, most of them differences.

Sources: LLVM, `DebugLinesSubsection`, `CodeViewContext::encodeInlineLineTable`; microsoft-pdb, `cvinfo.h`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.pdb import columns as col
else:
    from icf._bytes import MASK, word
    from icf._types import Bytes, u64
    from icf.pdb import columns as col


@cython.ccall
def scan_lines(
    stream: Bytes,
    begin: cython.size_t,
    end: cython.size_t,
    runs: u64[:, ::1],
    rows: u64[:, ::1],
    inlinees: u64[:, ::1],
    used: u64[::1],
) -> cython.int:
    """Find line rows and inlined functions in the subsections of a module.

    stream    the module's stream; subsections from `begin` to `end`, which are inside of it
    runs      u64[n, RUN_WIDTH]; one row for 12 bytes is enough
    rows      u64[m, LINE_WIDTH]; one for 8 bytes is enough
    inlinees  u64[k, INLINEE_WIDTH]; one for 12 bytes is enough
    used      u64[USED_WIDTH]: FIRST_COUNT runs, SECOND_COUNT rows, THIRD_COUNT inlined functions, place of the files
    """
    at: cython.size_t = begin
    after: cython.size_t
    kind: u64
    pos: cython.size_t
    block_end: cython.size_t
    count: cython.size_t
    i: cython.size_t
    has_columns: cython.bint
    is_long: cython.bint
    run_count: cython.size_t = 0
    row_count: cython.size_t = 0
    inlinee_count: cython.size_t = 0
    used[col.ERROR] = 0
    used[col.FILES_START] = 0
    used[col.FILES_END] = 0
    with cython.nogil:
        while at < end and used[col.ERROR] == 0:
            if end - at < 8 or word(stream, at + 4, 4) > end - at - 8:
                used[col.ERROR] = col.ERR_LENGTH
                break
            kind = word(stream, at, 4)
            after = at + 8 + word(stream, at + 4, 4)
            pos = at + 8
            if kind == 0xF2:
                if after - pos < 12:
                    used[col.ERROR] = col.ERR_SHORT
                    break
                has_columns = word(stream, pos + 6, 2) & 1 != 0
                pos += 12
                while pos < after:
                    if after - pos < 12:
                        used[col.ERROR] = col.ERR_BLOCK
                        break
                    count = word(stream, pos + 4, 4)
                    block_end = word(stream, pos + 8, 4)
                    if (
                        block_end > after - pos
                        or block_end < 12
                        or count > (block_end - 12) // (12 if has_columns else 8)
                    ):
                        used[col.ERROR] = col.ERR_BLOCK
                        break
                    block_end += pos
                    runs[run_count, col.F_ADDRESS] = word(stream, at + 8, 4)
                    runs[run_count, col.F_SEGMENT] = word(stream, at + 12, 2)
                    runs[run_count, col.F_SIZE] = word(stream, at + 16, 4)
                    runs[run_count, col.F_SUBSECTION] = at
                    runs[run_count, col.F_FILE] = word(stream, pos, 4)
                    runs[run_count, col.F_FIRST_ROW] = row_count
                    i = 0
                    while i < count:
                        rows[row_count, col.L_ADDRESS] = word(stream, at + 8, 4) + word(stream, pos + 12 + 8 * i, 4)
                        rows[row_count, col.L_LINE] = word(stream, pos + 16 + 8 * i, 4) & 0xFFFFFF
                        rows[row_count, col.L_COLUMN] = 0
                        if has_columns:
                            rows[row_count, col.L_COLUMN] = word(stream, pos + 12 + 8 * count + 4 * i, 2)
                        row_count += 1
                        i += 1
                    runs[run_count, col.F_LAST_ROW] = row_count
                    run_count += 1
                    pos = block_end
            elif kind == 0xF4:
                used[col.FILES_START] = pos
                used[col.FILES_END] = after
            elif kind == 0xF6:
                if after - pos < 4:
                    used[col.ERROR] = col.ERR_SHORT
                    break
                is_long = word(stream, pos, 4) == 1
                pos += 4
                while after - pos >= (16 if is_long else 12):
                    inlinees[inlinee_count, col.I_FUNCTION] = word(stream, pos, 4)
                    inlinees[inlinee_count, col.I_FILE] = word(stream, pos + 4, 4)
                    inlinees[inlinee_count, col.I_LINE] = word(stream, pos + 8, 4)
                    inlinee_count += 1
                    pos += 12
                    if is_long:
                        if word(stream, pos, 4) > (after - pos - 4) // 4:
                            used[col.ERROR] = col.ERR_BLOCK
                            break
                        pos += 4 + 4 * word(stream, pos, 4)
            if used[col.ERROR] == 0:
                at = after + (begin - after & 3)
    used[col.FIRST_COUNT] = run_count
    used[col.SECOND_COUNT] = row_count
    used[col.THIRD_COUNT] = inlinee_count
    used[col.ERROR_AT] = at
    return 0


@cython.ccall
def read_annotations(stream: Bytes, sites: cython.const[u64][:, ::1], out: u64[:, ::1]) -> cython.Py_ssize_t:
    """Find the code of inlined calls; return how many rows of `out` it takes.

    stream  the module's stream
    sites   u64[n, SITE_WIDTH]; their annotations are inside of the stream
    out     u64[m, ANNOTATION_WIDTH]; one row for each byte of annotations is enough
    """
    site: cython.size_t = 0
    site_count: cython.size_t = sites.shape[0]
    count: cython.size_t = 0
    pos: cython.size_t
    end: cython.size_t
    operation: u64
    first: u64
    second: u64
    address: u64
    base: u64
    file: u64
    line: u64
    column: u64
    reads: cython.int
    has_open: cython.bint
    with cython.nogil:
        while site < site_count:
            pos = sites[site, col.S_START]
            end = sites[site, col.S_END]
            address = 0
            base = 0
            file = col.SAME_FILE
            line = 0
            column = 0
            has_open = False
            while pos < end:
                operation = stream[pos]
                pos += 1
                if operation == 0 or operation > 13:  # padding
                    break
                first = 0
                second = 0
                reads = 2 if operation == 12 else 1
                while reads > 0 and pos < end:
                    second = first
                    if stream[pos] < 0x80:
                        first = stream[pos]
                        pos += 1
                    elif stream[pos] < 0xC0 and end - pos >= 2:
                        first = (word(stream, pos, 1) & 0x3F) << 8 | stream[pos + 1]
                        pos += 2
                    elif stream[pos] < 0xE0 and end - pos >= 4:
                        first = (
                            (word(stream, pos, 1) & 0x1F) << 24
                            | word(stream, pos + 1, 1) << 16
                            | word(stream, pos + 2, 1) << 8
                            | word(stream, pos + 3, 1)
                        )
                        pos += 4
                    else:
                        break
                    reads -= 1
                if reads > 0:
                    break
                if operation == 1:
                    address = first
                elif operation == 2:
                    base = first
                elif operation == 4:
                    if has_open:
                        out[count - 1, col.A_HIGH] = base + address + first
                        has_open = False
                    address += first
                elif operation == 5:
                    file = first
                elif operation == 6:
                    line = (line - (first >> 1) if first & 1 else line + (first >> 1)) & MASK
                elif operation == 9:
                    column = first
                if operation == 3 or operation == 11 or operation == 12:
                    if operation == 11:
                        second = first >> 4
                        line = (line - (second >> 1) if second & 1 else line + (second >> 1)) & MASK
                        first &= 15
                    address += first
                    if has_open:
                        out[count - 1, col.A_HIGH] = base + address
                    out[count, col.A_SITE] = site
                    out[count, col.A_LOW] = base + address
                    out[count, col.A_HIGH] = base + address
                    out[count, col.A_FILE] = file
                    out[count, col.A_LINE] = line
                    out[count, col.A_COLUMN] = column
                    has_open = operation != 12
                    if operation == 12:
                        out[count, col.A_HIGH] += second
                    count += 1
            site += 1
    return count
