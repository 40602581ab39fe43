"""What a call or a jump names: the symbol of the relocation in it, from a link that has kept its relocations."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.truth.symbols import FUNCTION_TYPES, SHF_ALLOC, SHT_RELA, STT_FILE

_PREFIXES = b"\x66\x67\xf2\xf3\x3e\x2e"
_REX, _CALL, _JMP, _NOP = 0x40, 0xE8, 0xE9, b"\x90"
_THROUGH_GOT = (b"\xff\x15", b"\xff\x25")


def read_references(path: Path) -> dict[int, str]:
    """Address of each reference to a function by its symbol -> that symbol, `name@file` for a local one."""
    data = path.read_bytes()
    shoff = struct.unpack_from("<Q", data, 40)[0]
    shentsize, shnum = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + row * shentsize) for row in range(shnum)]
    found: dict[int, str] = {}
    names: dict[int, list[str]] = {}
    for section in sections:
        if section[1] != SHT_RELA or section[2] & SHF_ALLOC or not sections[section[7]][2] & SHF_ALLOC:
            continue
        table = section[6]
        if table not in names:
            names[table] = _function_names(data, sections[table], sections)
        for offset, kind, _addend in struct.iter_unpack("<QQq", data[section[4] : section[4] + section[5]]):
            name = names[table][kind >> 32]
            if name:
                found[offset] = name
    return found


def _function_names(data: bytes, symtab: tuple[int, ...], sections: list[tuple[int, ...]]) -> list[str]:
    strings = sections[symtab[6]][4]
    names, file = [], ""
    for name, info, _other, _shndx, _value, _size in struct.iter_unpack(
        "<IBBHQQ", data[symtab[4] : symtab[4] + symtab[5]]
    ):
        text = data[strings + name : data.index(b"\0", strings + name)].decode(errors="replace")
        if info & 15 == STT_FILE:
            file = text
        is_function = info & 15 in (*FUNCTION_TYPES, 0)  # undefined ones have no type
        names.append((f"{text}@{file}" if info >> 4 == 0 else text) if is_function and text else "")
    return names


def named_by_branch(references: dict[int, str], branch: int, code: bytes) -> str | None:
    """The symbol that the call or jump at an address refers to; `code` are its bytes."""
    at = 0
    while at < len(code) and (code[at] in _PREFIXES or code[at] & 0xF0 == _REX):
        at += 1
    opcode = code[at : at + 2].ljust(2, b"\0")
    if opcode[0] == _JMP:  # a linker makes it of a jump through the GOT, one byte longer
        return references.get(branch + at + 1) or (
            references.get(branch + at + 2) if code[at + 5 : at + 6] == _NOP else None
        )
    if opcode[0] == _CALL:
        return references.get(branch + at + 1)
    if (opcode[0] == 0x0F and opcode[1] & 0xF0 == 0x80) or opcode in _THROUGH_GOT:
        return references.get(branch + at + 2)
    return None
