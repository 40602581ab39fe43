"""Writes `.llvm_addrsig` into objects without it: the symbols whose addresses a program may compare.

clang writes it, gcc does not. `--icf=safe` of lld and mold folds a function only if no object lists it, and nothing of
an object without the section.

    call f, jmp f         not listed: f is only entered
    _ZTV1A: .quad f       not listed: a slot of a vtable, which the program only calls through (also of _ZTC)
    lea f, .quad f        listed, also where the word is in a table of functions: `a->read == b->read` is C

    ULEB128, ...          the indices of the listed symbols in the symbol table that sh_link names

A reference to a section stands for all that is in it. Unwind tables and debug information do not count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing

from icf.elf.headers import is_bitcode
from icf.elf.image import Image
from icf.elf.relocatable import RelocatableObject
from icf.elf.types import SHF_EXECINSTR, SHT_NULL, SHT_SYMTAB
from icf.filebytes import FileBytes
from icf.tables.annotation import ulebs
from linkpass.annotate import is_branch
from linkpass.rewrite.edits import SectionEdit
from linkpass.rewrite.sections import rewrite

SECTION = ".llvm_addrsig"
_SHT_LLVM_ADDRSIG, _SHF_EXCLUDE = 0x6FFF4C03, 0x80000000
_VTABLES = ("_ZTV", "_ZTC")
_RTTI = ("_ZTI", "_ZTS")
_UNWIND = (".eh_frame", ".gcc_except_table")


def add_address_significance(path: str) -> bool:
    """List the address-significant symbols in the object at `path`, in place; False if it has a list, or no symbols.

    Raises:
        FormatError: the object is damaged.
        UnsupportedError: its relocations are of a kind that is not handled.
    """
    with closing(FileBytes.open(path)) as data:
        if is_bitcode(data[:4]):
            return False
    with Image.open(path, allow_rel=True) as image:
        symtab = next((section for section in image.sections if section.type == SHT_SYMTAB), None)
        if symtab is None or image.named(SECTION) is not None:
            return False
        listed = ulebs(sorted(set(_significant(RelocatableObject(image)))))
        edit = SectionEdit(SECTION, listed, 1, _SHT_LLVM_ADDRSIG, _SHF_EXCLUDE, 0, symtab.name)
        rewrite(image, path, [edit])
    return True


def _significant(object_file: RelocatableObject) -> Iterator[int]:
    """Yield the symbols of all references that may be an address in use."""
    file, symbols = object_file.file, object_file.symbols
    vtables = _vtables(object_file)
    for section in file.sections:
        if not section.is_alloc or section.type == SHT_NULL or section.name.startswith(_UNWIND):
            continue
        relocations = object_file.relocations_of(section.index)
        is_code = bool(section.flags & SHF_EXECINSTR) and bool(relocations)
        code = file.contents(section) if is_code else memoryview(b"")
        slots = vtables.get(section.index, [])
        for offset, kind, symbol, _ in relocations:
            is_called = is_code and is_branch(object_file.machine, code, offset, kind)
            if symbol == 0 or is_called:
                continue
            if not _is_inside(slots, offset) or object_file.name(symbols[symbol]).startswith(_RTTI):
                yield symbol


def _vtables(object_file: RelocatableObject) -> dict[int, list[tuple[int, int]]]:
    """Return the start and end of the vtables in each section."""
    found: dict[int, list[tuple[int, int]]] = {}
    for symbol in object_file.symbols:
        if symbol.is_defined and object_file.name(symbol).startswith(_VTABLES):
            found.setdefault(symbol.shndx, []).append((symbol.value, symbol.value + symbol.size_bytes))
    return {section: sorted(ranges) for section, ranges in found.items()}


def _is_inside(ranges: list[tuple[int, int]], offset: int) -> bool:
    at = bisect_right(ranges, (offset, 1 << 64)) - 1
    return at >= 0 and offset < ranges[at][1]
