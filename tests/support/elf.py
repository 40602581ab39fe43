"""Assembles the smallest ELF file that holds given sections, for tests that write their bytes out.

ELF header | section contents, each at 8 bytes | .shstrtab | section headers
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

_EHDR_SIZE_BYTES, _SHDR_SIZE_BYTES = 64, 64
_ET_EXEC, _EM_X86_64 = 2, 62
_SHT_PROGBITS, _SHT_STRTAB = 1, 3


def elf_file(sections: Mapping[str, bytes], *, elf_type: int = _ET_EXEC, machine: int = _EM_X86_64) -> bytes:
    """An ELF64 file with these non-allocated sections, in this order."""
    names, body = bytearray(b"\0"), bytearray(_EHDR_SIZE_BYTES)
    headers = [bytes(_SHDR_SIZE_BYTES)]
    for name, content in {**sections, ".shstrtab": None}.items():
        name_offset = len(names)
        names += name.encode() + b"\0"
        body += bytes(-len(body) % 8)
        stored = bytes(names) if content is None else content
        section_type = _SHT_STRTAB if content is None else _SHT_PROGBITS
        headers.append(struct.pack("<IIQQQQIIQQ", name_offset, section_type, 0, 0, len(body), len(stored), 0, 0, 1, 0))
        body += stored
    body += bytes(-len(body) % 8)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    body[:_EHDR_SIZE_BYTES] = ident + struct.pack(
        "<HHIQQQIHHHHHH",
        elf_type,
        machine,
        1,  # e_version
        0,  # e_entry
        0,  # e_phoff
        len(body),  # e_shoff
        0,  # e_flags
        _EHDR_SIZE_BYTES,
        0,  # e_phentsize
        0,  # e_phnum
        _SHDR_SIZE_BYTES,
        len(headers),
        len(headers) - 1,  # e_shstrndx
    )
    return bytes(body) + b"".join(headers)
