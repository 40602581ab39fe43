"""Records the relocations of an object's functions and calls in the object (`icf.tables.annotation`).

There is one relocation for each function, against the symbol of the function itself: a local label would be gone where
the linker takes another object's copy of an inline function. Everything else is an offset from there. The bytes before
an operand decide whether it is a call, so an address of a function, taken with the same relocation, is not one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from operator import itemgetter
from struct import pack
from typing import NamedTuple

from icf.elf.archive import is_archive
from icf.elf.headers import is_bitcode
from icf.elf.image import Image
from icf.elf.relocatable import RelocatableObject, Relocation
from icf.elf.types import SHF_INFO_LINK, SHT_RELA, STT_FUNC, Machine
from icf.errors import IcfError
from icf.filebytes import FileBytes
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
_A64_GOT_LOADS = (309, 312, 313)  # GOT_LD_PREL19, LD64_GOT_LO12_NC, LD64_GOTPAGE_LO15
_offset_of = itemgetter(0)
_Place = tuple[int, int]  # section, offset


class _Symbol(NamedTuple):
    row: int
    name: str
    is_local: bool


def annotate(path: str) -> bool:
    """Annotate the object at `path`, in place; False if there is nothing to record: no function, or LLVM bitcode."""
    with closing(FileBytes.open(path)) as data:
        head = data[:8]
    if is_bitcode(head):
        return False
    if is_archive(memoryview(head)):
        raise IcfError(f"{path}: is an archive", hint="annotate its objects before ar packs them")
    with Image.open(path, allow_rel=True) as image:
        object_file = RelocatableObject(image)
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


def _functions(object_file: RelocatableObject) -> dict[_Place, list[_Symbol]]:
    """Return the symbols of each function; the first is one that other objects know, if there is one."""
    found: dict[_Place, list[_Symbol]] = {}
    for symbol in object_file.functions:
        if symbol.type == STT_FUNC and symbol.size_bytes:
            named = _Symbol(symbol.row, object_file.name(symbol), symbol.is_local)
            found.setdefault((symbol.shndx, symbol.value), []).append(named)
    for names in found.values():
        names.sort(key=lambda symbol: symbol.is_local)
    return found


def _described(object_file: RelocatableObject, symbols: dict[_Place, list[_Symbol]]) -> Iterator[Function]:
    file, machine, section = object_file.file, object_file.machine, -1

    @cache
    def callee_of(symbol: int, addend: int) -> tuple[str, bool]:
        return _callee(object_file, symbols, symbol, addend)

    for (own_section, offset), named in symbols.items():  # by section
        if own_section != section:
            section = own_section
            code = file.contents(file.sections[section])
            relocations = object_file.relocations_of(section)
        size_bytes = object_file.symbols[named[0].row].size_bytes
        first, last = (bisect_left(relocations, end, key=_offset_of) for end in (offset, offset + size_bytes))
        operands = tuple(_operands(machine, code, relocations[first:last], offset, callee_of))
        own_code = code[offset : offset + size_bytes]
        name, is_local = named[0].name, named[0].is_local
        aliases = tuple(symbol.name for symbol in named[1:])
        yield Function(name, aliases, is_local, size_bytes, section, offset, checksum(own_code, operands), operands)


def _operands(
    machine: Machine,
    code: memoryview,
    relocations: Sequence[Relocation],
    start: int,
    callee_of: Callable[[int, int], tuple[str, bool]],
) -> Iterator[Operand]:
    kinds, bias = _KINDS[machine], 0 if machine is Machine.AARCH64 else 4
    for offset, kind, symbol, addend in relocations:
        if is_branch(machine, code, offset, kind) or _is_load(machine, code, offset, kind):
            yield Operand(offset - start, kinds.get(kind, FIELD), *callee_of(symbol, addend + bias))
        else:
            yield Operand(offset - start, kinds.get(kind, FIELD))


def is_branch(machine: Machine, code: memoryview, offset: int, kind: int) -> bool:
    """Return whether the operand at `offset` is that of a call or jump."""
    if machine is Machine.AARCH64:
        return kind in _A64_BRANCHES
    if not 0 < offset <= len(code):
        return False
    before, opcode = code[offset - 2] if offset > 1 else 0, code[offset - 1]
    if kind in _RELATIVE_TYPES:
        return opcode in (0xE8, 0xE9) or (before == 0x0F and 0x80 <= opcode < 0x90)
    return _KINDS[machine].get(kind) == GOT_FIELD and before == 0xFF and opcode in (0x15, 0x25)


def _is_load(machine: Machine, code: memoryview, offset: int, kind: int) -> bool:
    """Return whether the operand at `offset` is that of a load from the GOT, as of a function to call (-fno-plt)."""
    if machine is Machine.AARCH64:
        return kind in _A64_GOT_LOADS
    return _KINDS[machine].get(kind) == GOT_FIELD and 2 <= offset < len(code) + 2 and code[offset - 2] == 0x8B


def _callee(
    object_file: RelocatableObject, symbols: dict[_Place, list[_Symbol]], row: int, addend: int
) -> tuple[str, bool]:
    """Return the function that a relocation refers to, and whether it is local; "" if it refers to none."""
    symbol = object_file.symbols[row]
    if not symbol.is_local:
        return ("" if addend else object_file.name(symbol)), False
    named = symbols.get((symbol.shndx, symbol.value + addend), [])
    if named[1:]:
        from icf.aliases import same_function  # with what it needs of demangling, a tenth of all imports

        if not all(same_function(named[0].name, other.name) for other in named[1:]):
            return "", False  # the compiler has merged functions, and the place does not show which of them is called
    return (named[0].name, named[0].is_local) if named else ("", False)
