"""A small image with vtables, word by word.

    0x1000  .text           functions, 8 bytes each
    0x4000  .data           the tables one after the other, each with its symbol

Words that lie in those sections are addresses. What is loaded anywhere has a RELATIVE relocation for each, or RELR.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from struct import pack

from icf.elf.image import Image
from icf.elf.types import (
    ET_DYN,
    ET_EXEC,
    PT_LOAD,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHT_DYNSYM,
    SHT_RELA,
    STT_OBJECT,
)
from tests.support.elf import Elf, Part, Sym, symbol_parts

CODE, DATA, STRINGS = 0x1000, 0x4000, 0x8000
CODE_BYTES, STRING_BYTES = 0x200, 0x400
_SHT_RELR = 19
_MASK = (1 << 64) - 1


def build_image(
    folder: Path,
    tables: Mapping[str, Sequence[int]],
    *,
    packing: str = "",
    imports: Mapping[int, str] | None = None,
    numbers: Collection[int] = (),
    strings: bytes = b"",
) -> Image:
    """An image of these tables; `packing` is "" for one that is loaded as linked, else "rela" or "relr".

    `imports` are words, by address, that the loader fills with a symbol of another module; `numbers` some that look
    like addresses and are none. Names with a comma between them are symbols of one table.
    """
    words = [word & _MASK for table in tables.values() for word in table]
    inside = [DATA + 8 * at for at, word in enumerate(words) if _is_address(word, len(words))]
    inside = [at for at in inside if at not in numbers]
    symbols, vaddr = [], DATA
    for name, table in tables.items():
        symbols += [Sym(alias, STT_OBJECT, 1, 2, vaddr, 8 * len(table)) for alias in name.split(",")]
        vaddr += 8 * len(table)
    imports = imports or {}
    rows = {name: row for row, name in enumerate(dict.fromkeys(imports.values()), 1)}
    rela = b"".join(pack("<QIIq", vaddr, 1, rows[name], 0) for vaddr, name in imports.items())
    relr = b""
    if packing == "rela":
        rela += b"".join(pack("<QIIq", at, 8, 0, words[(at - DATA) // 8]) for at in inside)
    elif packing == "relr":
        relr = pack_relr(inside)
    dynsym, dynstr = symbol_parts([Sym(name, 0, 1, 0) for name in rows], 8)
    dynsym.name, dynsym.type, dynsym.link, dynstr.name = ".dynsym", SHT_DYNSYM, 9, ".dynstr"
    parts = [
        Part(".text", flags=SHF_ALLOC | SHF_EXECINSTR, content=b"\xc3" * CODE_BYTES, vaddr=CODE, align=8),
        Part(".data", flags=SHF_ALLOC | SHF_WRITE, content=pack(f"<{len(words)}Q", *words), vaddr=DATA, align=8),
        Part(".rodata", flags=SHF_ALLOC, content=strings.ljust(STRING_BYTES, b"\0"), vaddr=STRINGS, align=8),
        Part(".rela.dyn", SHT_RELA, SHF_ALLOC, rela, link=8, align=8, entsize=24),
        Part(".relr.dyn", _SHT_RELR, SHF_ALLOC, relr, align=8, entsize=8),
        *symbol_parts(symbols, 6),
        dynsym,
        dynstr,
    ]
    segments = [(PT_LOAD, 5, ".text"), (PT_LOAD, 6, ".data"), (PT_LOAD, 4, ".rodata")]
    path = folder / "image"
    path.write_bytes(Elf(parts, segments, type=ET_DYN if packing else ET_EXEC).build())
    return Image.open(path)


def _is_address(word: int, word_count: int) -> bool:
    ranges = ((CODE, CODE_BYTES), (DATA, 8 * word_count), (STRINGS, STRING_BYTES))
    return any(start <= word < start + size_bytes for start, size_bytes in ranges)


def pack_relr(places: Sequence[int]) -> bytes:
    """Packed relative relocations of ascending places: a place, then bits for the 63 words behind, and so on."""
    packed, left = [], list(places)
    while left:
        base = left.pop(0)
        packed.append(base)
        base += 8
        while left and (left[0] - base) // 8 < 63:
            bits = 0
            while left and (left[0] - base) // 8 < 63:
                bits |= 1 << ((left.pop(0) - base) // 8)
            packed.append(bits << 1 | 1)
            base += 63 * 8
    return pack(f"<{len(packed)}Q", *packed)
