"""Line tables as bytes: a unit from its fields, in the order in which they stand in .debug_line."""

from __future__ import annotations

from collections.abc import Sequence

STANDARD_LENGTHS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])  # DW_LNS_copy (1) to DW_LNS_set_isa (12)
OLD_TABLES = (
    b"inc\0"  # include_directories[1]
    b"\0"  # end of the directories
    b"a.c\0\x00\x07\x09"  # file 1: directory 0, time, size
    b"b.h\0\x01\x00\x00"  # file 2: directory 1
    b"\0"  # end of the files
)
NEW_TABLES = (
    b"\x01\x01\x08"  # directory format: 1 field, DW_LNCT_path, DW_FORM_string
    b"\x02/src\0inc\0"  # 2 directories
    b"\x02\x01\x08\x02\x0b"  # file format: 2 fields, path string, DW_LNCT_directory_index data1
    b"\x03a.c\0\x00a.c\0\x00b.h\0\x01"  # 3 files
)


def uleb(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def sleb(value: int) -> bytes:
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value & 0x7F])


def set_address(vaddr: int, size_bytes: int = 8) -> bytes:
    return b"\0" + uleb(size_bytes + 1) + b"\x02" + (vaddr % (1 << 8 * size_bytes)).to_bytes(size_bytes, "little")


END = b"\0\x01\x01"  # DW_LNE_end_sequence


def unit(
    program: bytes,
    version: int = 5,
    *,
    tables: bytes | None = None,
    dwarf64: bool = False,
    min_inst_length: int = 1,
    max_ops: int = 1,
    default_is_stmt: int = 1,
    line_base: int = -5,
    line_range: int = 14,
    opcode_base: int = 13,
    lengths: bytes = STANDARD_LENGTHS,
    padding: bytes = b"",
) -> bytes:
    """One unit; its defaults are what gcc writes."""
    size_bytes = 8 if dwarf64 else 4
    body = bytes([min_inst_length])
    if version >= 4:
        body += bytes([max_ops])
    body += bytes([default_is_stmt, line_base & 0xFF, line_range, opcode_base]) + lengths
    body += ((NEW_TABLES if version >= 5 else OLD_TABLES) if tables is None else tables) + padding
    head = version.to_bytes(2, "little")
    if version >= 5:
        head += b"\x08\x00"  # address_size, seg_selector_size
    head += len(body).to_bytes(size_bytes, "little")
    rest = head + body + program
    return (b"\xff\xff\xff\xff" if dwarf64 else b"") + len(rest).to_bytes(size_bytes, "little") + rest


def function(vaddr: int, rows: Sequence[tuple[int, int, int]], size_bytes: int = 16, flags: bytes = b"") -> bytes:
    """A sequence: `rows` are (offset from vaddr, file, line); `flags` are opcodes before the first row."""
    out, address, line = set_address(vaddr) + flags, 0, 1
    for offset, file_idx, row_line in rows:
        out += b"\x02" + uleb(offset - address) + b"\x04" + uleb(file_idx) + b"\x03" + sleb(row_line - line) + b"\x01"
        address, line = offset, row_line
    return out + b"\x02" + uleb(size_bytes - address) + END
