"""Copies of archives in which some members are other objects.

    regular   each member in its place, the new ones with their own size; the symbol table gets the new offsets
    thin      the members stay where they are: their paths become absolute, those of new ones lead to the new files

The symbol table ("/" or "/SYM64/") is a count, the offset of a member's header for each symbol, and the names of the
symbols, which do not change. An archive with BSD's table is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from struct import error as StructError
from struct import pack, unpack_from

from icf.elf.archive import Archive, Member, is_thin
from icf.errors import FormatError, UnsupportedError
from linkpass.distinct.marking import Parts

_HEADER_BYTES, _SIZE_AT = 60, 48
_MAGIC_BYTES = 8
_SYMBOLS = {b"/": (4, "I"), b"/SYM64/": (8, "Q")}
_BSD_SYMBOLS = b"__.SYMDEF"
_LONG_NAMES = b"//"


def copied_archive(buffer: memoryview, path: str, new: Mapping[int, Parts]) -> Parts:
    """Return a regular archive in which the members whose headers are at these offsets have new contents."""
    members = {member.offset: member for member in Archive(buffer, path)}
    pieces: list[tuple[int, Parts]] = []  # by the offset of the old header
    for offset, name, contents in _raw_members(buffer, path):
        _refuse_bsd(path, name)
        header = buffer[offset : offset + _HEADER_BYTES]
        if offset in new:
            stored = members[offset].stored
            assert stored is not None  # of a regular archive
            before = contents[: len(contents) - len(stored)]  # a name, if it is BSD's
            pieces.append((offset, _member(header, [before, *new[offset]])))
        else:
            pieces.append((offset, _member(header, [contents])))
    return _joined(bytes(buffer[:_MAGIC_BYTES]), pieces, path)


def copied_thin_archive(buffer: memoryview, path: str, new: Mapping[int, str]) -> Parts:
    """Return a thin archive in which the members whose headers are at these offsets are these files."""
    assert is_thin(buffer)
    members = {member.offset: member for member in Archive(buffer, path)}
    names = bytearray()
    place: dict[int, int] = {}
    for offset, member in members.items():
        file = os.path.abspath(new.get(offset) or os.path.join(os.path.dirname(path), member.name))
        place[offset] = len(names)
        names += os.fsencode(file) + b"/\n"
    names += b"\n" * (len(names) & 1)
    pieces: list[tuple[int, Parts]] = []
    for offset, name, contents in _raw_members(buffer, path):
        _refuse_bsd(path, name)
        header = bytearray(buffer[offset : offset + _HEADER_BYTES])
        if offset in members:
            header[:16] = _name_field(members[offset], place[offset], is_new=offset in new)
            if offset in new:
                header[_SIZE_AT : _SIZE_AT + 10] = b"%-10d" % os.path.getsize(new[offset])
            pieces.append((offset, [bytes(header)]))
        elif name != _LONG_NAMES:
            pieces.append((offset, _member(header, [contents])))
    table = bytearray(b"%-48s%-10d`\n" % (_LONG_NAMES, len(names)))
    first = next((at for at, (offset, _) in enumerate(pieces) if offset in members), len(pieces))
    pieces.insert(first, (-1, [bytes(table), bytes(names)]))
    return _joined(bytes(buffer[:_MAGIC_BYTES]), pieces, path)


def _raw_members(buffer: memoryview, path: str) -> Iterator[tuple[int, bytes, memoryview]]:
    """Yield offset, name and contents of everything that has a header; `Archive` has checked it."""
    offset, has_contents = _MAGIC_BYTES, not is_thin(buffer)
    while offset < len(buffer):
        header = bytes(buffer[offset : offset + _HEADER_BYTES])
        name, size_bytes = header[:16].rstrip(b" "), int(header[_SIZE_AT : _SIZE_AT + 10])
        start = offset + _HEADER_BYTES
        if not has_contents and name not in (*_SYMBOLS, _LONG_NAMES):
            size_bytes = 0
        yield offset, name, buffer[start : start + size_bytes]
        offset = start + size_bytes + (size_bytes & 1)


def _refuse_bsd(path: str, name: bytes) -> None:
    if name.startswith(_BSD_SYMBOLS):
        raise UnsupportedError(f"{path}: has a symbol table as BSD writes it")


def _name_field(member: Member, place: int, *, is_new: bool) -> bytes:
    name = f"/{place}" if member.origin is None or is_new else f"/{place}:{member.origin}"
    return name.encode().ljust(16)


def _member(header: bytes | bytearray | memoryview, contents: Parts) -> Parts:
    size_bytes = sum(map(len, contents))
    new_header = bytearray(header)
    new_header[_SIZE_AT : _SIZE_AT + 10] = b"%-10d" % size_bytes
    return [bytes(new_header), *contents, b"\n" * (size_bytes & 1)]


def _joined(magic: bytes, pieces: list[tuple[int, Parts]], path: str) -> Parts:
    """Return the archive of these pieces, with their new offsets in the symbol table."""
    new_offset: dict[int, int] = {}
    end = len(magic)
    for offset, parts in pieces:
        new_offset[offset] = end
        end += sum(map(len, parts))
    result: Parts = [magic]
    for _, parts in pieces:
        name = bytes(parts[0][:16]).rstrip(b" ")
        if name in _SYMBOLS:
            parts = [parts[0], _moved_symbols(bytes(parts[1]), *_SYMBOLS[name], new_offset, path), *parts[2:]]
        result += parts
    return result


def _moved_symbols(content: bytes, width_bytes: int, kind: str, new_offset: Mapping[int, int], path: str) -> bytes:
    try:
        count = unpack_from(f">{kind}", content)[0]
        offsets = unpack_from(f">{min(count, len(content))}{kind}", content, width_bytes)
        moved = pack(f">{len(offsets)}{kind}", *(new_offset[offset] for offset in offsets))
    except (StructError, KeyError) as error:
        problem = "symbol table names a place where no member begins"
        raise FormatError(path, "archive", _MAGIC_BYTES, problem) from error
    return content[:width_bytes] + moved + content[width_bytes + len(moved) :]
