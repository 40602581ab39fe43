"""Records the relocations of an object's functions and calls in the object (`icf.tables.annotation`).

There is one relocation for each function, against the symbol of the function itself: a local label would be gone where
the linker takes another object's copy of an inline function. Everything else is an offset from there. The bytes before
an operand decide whether it is a call, so an address of a function, taken with the same relocation, is not one.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack
from typing import NamedTuple

import numpy as np

from icf.aliases import same_function
from icf.elf.image import Image
from icf.elf.objectfile import Entries, ObjectFile, is_bitcode
from icf.elf.types import SHF_INFO_LINK, SHT_RELA, STB_LOCAL, STT_FUNC, Machine
from icf.tables import ANNOTATION_SECTION as SECTION
from icf.tables.annotation import (
    ADDRESSES_AT,
    FIELD,
    GOT_FIELD,
    THREAD_FIELD,
    WIDE_FIELD,
    Function,
    Operand,
    checksum,
    encode_annotation,
)
from linkpass.rewrite.edits import SectionEdit
from linkpass.rewrite.sections import rewrite

RELA_SECTION = f".rela{SECTION}"
_ADDRESS_TYPE = {Machine.X86_64: 1, Machine.AARCH64: 257}  # R_X86_64_64, R_AARCH64_ABS64
_KINDS = {
    Machine.X86_64: {
        **dict.fromkeys((1, 24, 25), WIDE_FIELD),
        **dict.fromkeys((9, 41, 42), GOT_FIELD),
        **dict.fromkeys((19, 20, 21, 22, 23, 34, 35, 36, 44, 45, 46), THREAD_FIELD),
    },
    Machine.AARCH64: {257: WIDE_FIELD},
}
_RELATIVE_TYPES, _A64_BRANCHES = (2, 4), (280, 282, 283)
_Place = tuple[int, int]  # section, offset


class _Symbol(NamedTuple):
    row: int
    name: str
    is_local: bool


def annotate(path: str) -> bool:
    """Annotate the object at `path`, in place; False if there is nothing to record: no function, or LLVM bitcode."""
    with open(path, "rb") as file:
        if is_bitcode(memoryview(file.read(4))):
            return False
    with Image.open(path, allow_rel=True) as image:
        object_file = ObjectFile.parse(image.data[:], path)
        symbols = _functions(object_file)
        if not symbols:
            return False
        content = encode_annotation(object_file.source_file, list(_described(object_file, symbols)))
        kind = _ADDRESS_TYPE[object_file.machine]
        relocations = b"".join(
            pack("<QIIq", ADDRESSES_AT + 8 * idx, kind, named[0].row, 0) for idx, named in enumerate(symbols.values())
        )
        edits = [
            SectionEdit(SECTION, content),
            SectionEdit(RELA_SECTION, relocations, 8, SHT_RELA, SHF_INFO_LINK, 24, ".symtab", SECTION),
        ]
        rewrite(image, path, edits)
    return True


def _functions(object_file: ObjectFile) -> dict[_Place, list[_Symbol]]:
    """Return the symbols of each function; the first is one that other objects know, if there is one."""
    symbols = object_file.symbols
    found: dict[_Place, list[_Symbol]] = {}
    rows = object_file.functions
    rows = rows[(symbols.type[rows] == STT_FUNC) & (symbols.size_bytes[rows] != 0)]
    columns = (rows, symbols.shndx[rows], symbols.value[rows], symbols.bind[rows] == STB_LOCAL)
    for row, section, offset, is_local in zip(*(column.tolist() for column in columns), strict=True):
        found.setdefault((section, offset), []).append(_Symbol(row, symbols.name(row), is_local))
    for named in found.values():
        named.sort(key=lambda symbol: symbol.is_local)
    return found


def _described(object_file: ObjectFile, symbols: dict[_Place, list[_Symbol]]) -> Iterator[Function]:
    sizes = object_file.symbols.size_bytes
    section = -1
    for (own_section, offset), named in symbols.items():  # by section
        if own_section != section:
            section = own_section
            code = object_file.contents(section)
            entries = object_file.relocations_of(section)
            entries = entries[np.argsort(entries["offset"], kind="stable")]
        size_bytes = int(sizes[named[0].row])
        first, last = np.searchsorted(entries["offset"], [offset, offset + size_bytes])
        operands = tuple(_operands(object_file, symbols, code, entries[first:last], offset))
        own_code = code[offset : offset + size_bytes]
        name, is_local = named[0].name, named[0].is_local
        aliases = tuple(symbol.name for symbol in named[1:])
        yield Function(name, aliases, is_local, size_bytes, section, offset, checksum(own_code, operands), operands)


def _operands(
    object_file: ObjectFile, symbols: dict[_Place, list[_Symbol]], code: memoryview, entries: Entries, start: int
) -> Iterator[Operand]:
    kinds = _KINDS[object_file.machine]
    columns = (entries["offset"], entries["type"], entries["symbol"], entries["addend"])
    for offset, kind, symbol, addend in zip(*(column.tolist() for column in columns), strict=True):
        callee, is_local = "", False
        if _is_branch(object_file.machine, code, offset, kind):
            bias = 0 if object_file.machine is Machine.AARCH64 else 4
            callee, is_local = _callee(object_file, symbols, symbol, addend + bias)
        yield Operand(offset - start, kinds.get(kind, FIELD), callee, is_local)


def _is_branch(machine: Machine, code: memoryview, offset: int, kind: int) -> bool:
    """Return whether the operand at `offset` is that of a call or jump."""
    if machine is Machine.AARCH64:
        return kind in _A64_BRANCHES
    before = bytes(code[max(offset - 2, 0) : offset])
    if kind in _RELATIVE_TYPES:
        return before[-1:] in (b"\xe8", b"\xe9") or (before[:1] == b"\x0f" and b"\x80" <= before[-1:] < b"\x90")
    return _KINDS[machine].get(kind) == GOT_FIELD and before in (b"\xff\x15", b"\xff\x25")


def _callee(object_file: ObjectFile, symbols: dict[_Place, list[_Symbol]], row: int, addend: int) -> tuple[str, bool]:
    """Return the function that a relocation refers to, and whether it is local; "" if it refers to none."""
    table = object_file.symbols
    section = int(table.shndx[row])
    if int(table.bind[row]) != STB_LOCAL:
        return ("" if addend else table.name(row)), False
    named = symbols.get((section, int(table.value[row]) + addend), [])
    if any(not same_function(named[0].name, symbol.name) for symbol in named[1:]):
        return "", False  # the compiler has merged functions, and the place does not show which of them is called
    return (named[0].name, named[0].is_local) if named else ("", False)
