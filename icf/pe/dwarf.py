"""The DWARF in a PE image, as mingw's compilers write it, and clang with -gdwarf.

Readers of DWARF take an ELF image (`icf.elf.image.Image`). `DwarfImage` is the PE image in the shape of one: the same
file and addresses, with headers made from its own.

    sections    those of the PE image, with their whole names; debug information is not loaded
    symbols     its COFF symbols; sizes of functions for which `.pdata` has an entry
    linker      not known, but one that keeps the symbols of all functions

lld for Windows leads each reference to a folded function to the kept one, in debug information, too: each member of a
body has a DIE with the body's address. Functions that were removed have a DIE with an address near 0.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from icf.columns import U64
from icf.elf.headers import Headers
from icf.elf.image import Image
from icf.elf.string_table import StringTable
from icf.elf.symbols import SYM, Symbols
from icf.elf.types import (
    ET_EXEC,
    PF_W,
    PF_X,
    PT_LOAD,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHN_ABS_16,
    SHN_UNDEF,
    SHT_NOBITS,
    SHT_NULL,
    SHT_PROGBITS,
    STB_GLOBAL,
    STB_LOCAL,
    STT_FILE,
    STT_FUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_SECTION,
    Machine,
    Section,
    Segment,
)
from icf.linkers import UNKNOWN, KeptSymbols, Linker
from icf.pe.coff_symbols import EXTERNAL, FILE, STATIC, WEAK_EXTERNAL, CoffSymbols
from icf.pe.headers import WRITE
from icf.pe.image import PeImage
from icf.pe.unwindinfo import UnwindTable

LINKER = UNKNOWN._replace(kept_symbols=KeptSymbols.ALL, relocations_restore=False)
INFO = ".debug_info"
_DEBUG = (".debug_", ".zdebug_")
_STB_WEAK = 2
_ABSOLUTE = -1  # number of a section


def attach_dwarf(image: PeImage) -> None:
    """Attach the DWARF of an image, if it has any and no PDB. Raise FormatError."""
    if image.pdb is None and any(each.name.startswith("/") for each in image.sections):
        dwarf = DwarfImage(image)
        if dwarf.section(INFO) is not None:
            image.dwarf = dwarf


class DwarfImage(Image):
    """A PE image in the shape of an ELF image; it shares the file, which `PeImage.close` closes."""

    def __init__(self, image: PeImage) -> None:
        self._image = image
        self._coff = CoffSymbols(image.headers, image.data, image.path)
        super().__init__(image.path, image.data, headers=_headers(image, self._coff))

    @property
    def span(self) -> tuple[int, int]:
        """The lowest address that is loaded, and the one after the highest."""
        return self._image.span

    @cached_property
    def linker(self) -> Linker:
        """The linker is not known; none drops symbols of folded functions."""
        return LINKER

    @cached_property
    def build_id(self) -> bytes:
        """What identifies the image as a PE image."""
        return self._image.build_id

    @cached_property
    def code_digest(self) -> bytes:
        """The digest of its code as of a PE image."""
        return self._image.code_digest

    @cached_property
    def got_imports(self) -> dict[int, str]:
        """The imported function of each slot that the loader fills, by the address of the slot."""
        return self._image.got_imports

    @cached_property
    def symbols(self) -> Symbols:
        """The COFF symbols."""
        coff = self._coff
        strings, offsets = coff.text
        rows = coff.raw[coff.rows]
        raw = np.zeros(len(rows), SYM)
        section, storage = rows["section"].astype(np.int64), rows["storage"]
        count = len(self.sections)
        is_defined = (section > 0) & (section < count)
        number = np.where(is_defined, section, SHN_UNDEF)
        starts = np.array([each.vaddr for each in self._image.headers.sections], np.uint64)
        starts = np.concatenate([np.zeros(1, np.uint64), starts])
        is_code = np.array([bool(each.flags & SHF_EXECINSTR) for each in self.sections])[number]
        is_data = is_defined & ~is_code & np.isin(storage, (EXTERNAL, STATIC, WEAK_EXTERNAL))
        is_function = coff.is_function()  # GNU as writes records after functions, too
        is_section = (storage == STATIC) & (rows["more"] > 0) & (rows["value"] == 0) & ~is_function
        kinds = [storage == FILE, is_section, is_function & is_code, is_data]
        kind = np.select(kinds, [STT_FILE, STT_SECTION, STT_FUNC, STT_OBJECT], STT_NOTYPE)
        bind = np.select([storage == EXTERNAL, storage == WEAK_EXTERNAL], [STB_GLOBAL, _STB_WEAK], STB_LOCAL)
        raw["st_name"], raw["st_info"] = offsets, bind << 4 | kind
        raw["st_shndx"] = np.where(section == _ABSOLUTE, SHN_ABS_16, number)
        raw["st_value"] = starts[number] + rows["value"]
        functions = np.flatnonzero(kind == STT_FUNC)
        raw["st_size"][functions] = self._sizes(raw["st_value"][functions])
        is_other = is_defined & np.isin(kind, (STT_SECTION, STT_NOTYPE, STT_OBJECT))
        limits = np.unique(np.concatenate([raw["st_value"][is_other], self._unwound[0]]))
        return Symbols(self.path, "symbols", raw, StringTable(strings), limits=limits, is_elf=False)

    @cached_property
    def _unwound(self) -> tuple[U64, U64]:
        """The addresses at which entries of `.pdata` begin, ascending, and the furthest end of those that do."""
        if self.machine is not Machine.X86_64:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        begin, end = UnwindTable(self._image).ranges()
        start, back = np.unique(begin, return_inverse=True)
        furthest = np.zeros(len(start), np.uint64)
        np.maximum.at(furthest, back.reshape(-1), end)
        base = np.uint64(self._image.base)
        return start + base, furthest + base

    def _sizes(self, vaddrs: U64) -> U64:
        """Return the sizes of functions: of those that begin where an entry of `.pdata` does; 0: not known."""
        begin, end = self._unwound
        sizes = np.zeros(len(vaddrs), np.uint64)
        if not len(begin):
            return sizes
        row = np.minimum(np.searchsorted(begin, vaddrs), len(begin) - 1)
        following = np.append(np.unique(vaddrs), ~np.uint64(0))
        ends = np.minimum(end[row], following[np.searchsorted(following, vaddrs, side="right")])
        has = (begin[row] == vaddrs) & (ends > vaddrs)
        sizes[has] = ends[has] - vaddrs[has]
        return sizes


def _headers(image: PeImage, coff: CoffSymbols) -> Headers:
    """Return the headers of an ELF image with the sections of a PE image, under the same numbers."""
    sections = [Section(0, "", SHT_NULL, 0, 0, 0, 0, 0, 0, 0, 0)]
    segments = []
    for number, each in enumerate(image.headers.sections, 1):
        name = coff.section_name(each.name)
        is_debug = name.startswith(_DEBUG)
        writable = bool(each.characteristics & WRITE)
        flags = 0 if is_debug else SHF_ALLOC | SHF_WRITE * writable | SHF_EXECINSTR * each.is_code
        kind = SHT_PROGBITS if each.stored_bytes else SHT_NOBITS
        size_bytes = each.stored_bytes or each.size_bytes
        vaddr = 0 if is_debug else each.vaddr
        sections.append(Section(number, name, kind, flags, vaddr, each.offset, size_bytes, 0, 0, 1, 0))
        if not is_debug:
            access = PF_X * each.is_code | PF_W * writable
            segments.append(Segment(PT_LOAD, access, each.offset, vaddr, each.stored_bytes, each.size_bytes, 1))
    return Headers(image.machine, ET_EXEC, image.headers.entry, 0, 0, 0, tuple(sections), tuple(segments))
