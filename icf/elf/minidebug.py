"""Symbols in `.gnu_debugdata`, which Fedora and its kin leave in a stripped image so that stacks have names.

The section is an ELF file, packed with xz, that has a `.symtab` and the headers of the sections that the symbols are
in:

    nm -D --defined-only shop | cut -d' ' -f3 | sort > dynamic;  nm --defined-only shop.debug | ... | sort > all
    objcopy -S --remove-section .comment --keep-symbols=<(comm -13 dynamic all) shop.debug mini
    xz mini;  objcopy --add-section .gnu_debugdata=mini.xz shop

It names the functions that `.dynsym` does not, so the two are one table here. Section indices become those of the
image. The section does not record the size of its contents: unpacking stops with an error at a size for which the
image cannot have symbols.
"""

from __future__ import annotations

import numpy as np

from icf.columns import U16
from icf.elf.file import ElfFile
from icf.elf.string_table import StringTable
from icf.elf.symbols import Symbols, read_symbols
from icf.elf.types import SHN_ABS_16, SHN_LORESERVE_16, SHT_SYMTAB
from icf.errors import FormatError, UnsupportedError
from icf.sets import is_in

SECTION = ".gnu_debugdata"
_LEAST_LIMIT_BYTES = 16 << 20
_FILES_ALLOWED = 4  # the contents may be as big as that many of the image
_DICTIONARY_LIMIT_BYTES = 128 << 20  # xz -9 needs half of it


def read_minidebug(image: ElfFile, dynamic: Symbols) -> Symbols:
    """Return the symbols of `.gnu_debugdata`, and those of `.dynsym` that it leaves out."""
    packed = image.contents(SECTION)
    path = f"{image.path}({SECTION})"
    mini = ElfFile(path, memoryview(_unpack(packed, image)))
    if mini.machine is not image.machine:
        raise FormatError(image.path, SECTION, 0, f"is for {mini.machine.name}, the image for {image.machine.name}")
    table = next((section for section in mini.sections if section.type == SHT_SYMTAB), None)
    if table is None:
        raise FormatError(image.path, SECTION, 0, "has no symbol table")
    named = read_symbols(mini, table.index)
    known = set(zip(named.value.tolist(), named.names(range(named.count)), strict=True))
    likely = np.flatnonzero(is_in(dynamic.value, named.value)).tolist()
    names = dynamic.names(likely)
    again = [row for row, name in zip(likely, names, strict=True) if (int(dynamic.value[row]), name) in known]
    own, added = named.raw.copy(), np.delete(dynamic.raw, again)
    added["st_name"] += np.uint32(len(named.strings))
    own["st_shndx"] = _indices_in(image, mini)[np.minimum(own["st_shndx"], len(mini.sections))]
    names_of_both = b"".join(piece for each in (named, dynamic) for _, piece in each.strings.pieces())
    return Symbols(path, table.name, np.concatenate((own, added)), StringTable(memoryview(names_of_both)))


def _indices_in(image: ElfFile, mini: ElfFile) -> U16:
    """Return the index that each section of `mini` has in `image`; SHN_ABS for one that the image lacks."""
    there = {(s.name, s.vaddr): s.index for s in image.sections if s.is_alloc and s.index < SHN_LORESERVE_16}
    indices = [there.get((section.name, section.vaddr), SHN_ABS_16) for section in mini.sections]
    indices[:1] = [0]
    return np.array([*indices, SHN_ABS_16], np.uint16)


def _unpack(packed: memoryview, image: ElfFile) -> bytes:
    try:
        import lzma
    except ImportError as error:
        raise UnsupportedError(f"{image.path}: {SECTION}: this Python was built without its module lzma") from error
    limit = _LEAST_LIMIT_BYTES + _FILES_ALLOWED * len(image.data)
    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, _DICTIONARY_LIMIT_BYTES)
        contents = unpacker.decompress(packed, limit + 1)
    except lzma.LZMAError as error:
        raise FormatError(image.path, SECTION, 0, f"xz data is corrupt: {error}") from error
    if len(contents) > limit:
        raise FormatError(image.path, SECTION, 0, f"inflates to more than {limit} bytes")
    if not unpacker.eof:
        raise FormatError(image.path, SECTION, len(packed), "xz data has no end")
    return contents
