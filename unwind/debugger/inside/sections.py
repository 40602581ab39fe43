"""The sections of an ELF file, by name: enough to see whether it has call-site tables, and how far it was moved.

This is the check that a debugger makes of every image it has loaded, so it reads two tables and nothing else.
"""

from __future__ import annotations

import os
import struct
from typing import Dict, Tuple

_TABLES = (".debug_icf", ".debug_dcall")
_ELF64_LITTLE = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<40xQ10xHHH")  # e_shoff, e_shentsize, e_shnum, e_shstrndx
_SECTION = struct.Struct("<II8xQQQI20x")  # sh_name, sh_type, sh_addr, sh_offset, sh_size, sh_link
_SHN_XINDEX = 0xFFFF
_NAMES_LIMIT = 1 << 24  # bytes
_NOTE = struct.Struct("<II4x")  # n_namesz, n_descsz

BUILD_ID, NOTE_LIMIT = ".note.gnu.build-id", 1 << 12  # bytes

_known: Dict[Tuple[str, int, int], Dict[str, int]] = {}  # by path, time of change and size


def read_sections(path: str) -> Dict[str, int]:
    """Return the address as linked of each section; nothing for a file that is not a 64-bit ELF file, or damaged."""
    try:
        status = os.stat(path)
        key = path, status.st_mtime_ns, status.st_size
        if key not in _known:
            _known[key] = _read(path)
        return _known[key]
    except (OSError, ValueError):
        return {}


def has_tables(path: str) -> bool:
    """Return whether an image, or a debug file, has call-site tables."""
    sections = read_sections(path)
    return any(name in sections for name in _TABLES)


def build_id_of(note: bytes) -> str:
    """Return the build id in a note, in hexadecimal; "" if it has none."""
    if len(note) < _NOTE.size:
        return ""
    name_bytes, build_id_bytes = _NOTE.unpack_from(note)
    start = _NOTE.size + (name_bytes + 3) // 4 * 4
    return note[start : start + build_id_bytes].hex()


def _read(path: str) -> Dict[str, int]:
    with open(path, "rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_ELF64_LITTLE):
            return {}
        offset, entry_bytes, count, names_at = _HEADER.unpack(header)
        if not offset or entry_bytes != _SECTION.size:
            return {}
        file.seek(offset)
        table = file.read(entry_bytes)
        if len(table) == entry_bytes:
            _, _, _, _, first_size, first_link = _SECTION.unpack(table)  # has what the header has no room for
            count, names_at = count or first_size, first_link if names_at == _SHN_XINDEX else names_at
        table += file.read(max(min(count, 1 << 16) - 1, 0) * entry_bytes)
        sections = list(_SECTION.iter_unpack(table[: len(table) // entry_bytes * entry_bytes]))
        if names_at >= len(sections):
            return {}
        _, _, _, names_offset, names_bytes, _ = sections[names_at]
        file.seek(names_offset)
        names = file.read(min(names_bytes, _NAMES_LIMIT))
    found = {}
    for name_at, _, address, _, _, _ in sections:
        name = names[name_at : max(names.find(b"\0", name_at), name_at)]
        found[name.decode("utf-8", "replace")] = address
    return found
