"""A symbol table as columns.

The table stays in the mapping. Each column becomes a contiguous array on first use, and a name is decoded only when a
caller wants it (`icf.elf.string_table`). Half a million symbols cost a few milliseconds for each column.

`shndx` is widened to 32 bits: SHN_XINDEX is resolved through the SHT_SYMTAB_SHNDX section, and
the reserved values are those of `icf.elf.types` (SHN_ABS = 0xfffffff1 ...).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from icf.columns import I64, U8, U32, U64, Mask
from icf.contents import Contents
from icf.elf.headers import SECTION_HEADERS
from icf.elf.string_table import StringTable
from icf.elf.types import (
    SHDR,
    SHN_LORESERVE,
    SHN_LORESERVE_16,
    SHN_UNDEF,
    SHN_XINDEX_16,
    SHT_DYNSYM,
    SHT_STRTAB,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
    STB_LOCAL,
    STT_FILE,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    SYM_SIZE_BYTES,
    source_name,
)
from icf.errors import FormatError
from icf.sets import is_in
from icf.strings import share_too_much

if TYPE_CHECKING:
    from icf.elf.file import ElfFile

SYM = np.dtype(
    [
        ("st_name", "<u4"),
        ("st_info", "u1"),
        ("st_other", "u1"),
        ("st_shndx", "<u2"),
        ("st_value", "<u8"),
        ("st_size", "<u8"),
    ]
)
_RESERVED = np.uint32(SHN_LORESERVE & 0xFFFF0000)
_NO_FUNCTIONS = b"__start_", b"__stop_", b".annobin_"  # where a section begins and ends, or what gcc's plug-in noted
_ALWAYS_LOCAL = b"frame_dummy", b"__do_global_dtors_aux", b"_ZL", b"_ZZL", b"_ZN12_GLOBAL__N_1"  # two of crtstuff.c
_KEPT_BYTES = 16 << 20  # longer string tables stay in the file


class Symbols:
    """The symbols of one table; a row is a symbol's index in it."""

    def __init__(
        self,
        path: str,
        section: str,
        raw: npt.NDArray[np.void],
        strings: StringTable,
        extended: U32 | None = None,
        *,
        limits: U64 | None = None,
        made_local_last: bool = False,
        is_elf: bool = True,
    ) -> None:
        self.path, self.section = path, section
        self.is_elf = is_elf  # what follows `@` in a name is a version; else of PE
        self.strings = strings
        self.limits = np.empty(0, np.uint64) if limits is None else limits  # ascending; no function goes on there
        self.count = len(raw)
        self.raw = raw
        self._extended = extended
        self._made_local_last = made_local_last

    def __len__(self) -> int:
        return self.count

    @cached_property
    def value(self) -> U64:
        """`st_value`: in a linked image, the address."""
        return np.ascontiguousarray(self.raw["st_value"])

    @cached_property
    def size_bytes(self) -> U64:
        """`st_size`."""
        return np.ascontiguousarray(self.raw["st_size"])

    @cached_property
    def type(self) -> U8:
        """STT_FUNC and so on."""
        return np.asarray(self.raw["st_info"] & 0xF, dtype=np.uint8)

    @cached_property
    def bind(self) -> U8:
        """STB_LOCAL and so on."""
        return np.asarray(self.raw["st_info"] >> 4, dtype=np.uint8)

    @cached_property
    def visibility(self) -> U8:
        """STV_DEFAULT and so on."""
        return np.asarray(self.raw["st_other"] & 3, dtype=np.uint8)

    @cached_property
    def name_offset(self) -> U32:
        """`st_name`, an offset in `strings`."""
        return np.ascontiguousarray(self.raw["st_name"])

    @cached_property
    def shndx(self) -> U32:
        """The section index, 32 bits wide."""
        stored = self.raw["st_shndx"]
        shndx = stored.astype(np.uint32)
        shndx[stored >= SHN_LORESERVE_16] |= _RESERVED
        escaped = np.flatnonzero(stored == SHN_XINDEX_16)
        if len(escaped):
            if self._extended is None or int(escaped[-1]) >= len(self._extended):
                raise FormatError(
                    self.path,
                    self.section,
                    int(escaped[-1]) * SYM_SIZE_BYTES,
                    "symbol with SHN_XINDEX has no entry in a SHT_SYMTAB_SHNDX section",
                )
            shndx[escaped] = self._extended[escaped]
        return shndx

    @cached_property
    def is_defined(self) -> Mask:
        """Whether the symbol lies in a section of this file (not undefined, absolute, common)."""
        return np.asarray((self.shndx != SHN_UNDEF) & (self.shndx < SHN_LORESERVE))

    @cached_property
    def functions(self) -> I64:
        """Rows of the functions (and ifuncs) defined in a section, by (value, row).

        A symbol without a type where a function starts is one, too: of assembly without `.type`, folded with it. Not
        a local one, a label of the function. The link makes hidden ones local; their visibility stays. Symbols of PE
        images without a type are those of sections and labels.
        """
        is_function = ((self.type == STT_FUNC) | (self.type == STT_GNU_IFUNC)) & self.is_defined
        rows = np.flatnonzero(is_function)
        is_label = (self.bind == STB_LOCAL) & (self.visibility == 0)
        bare = np.flatnonzero((self.type == STT_NOTYPE) & self.is_defined & (self.name_offset != 0) & ~is_label)
        bare = bare[is_in(self.value[bare], self.value[rows])]
        if len(bare) and self.is_elf:
            rows = np.append(rows, bare[~self.begin_with(_NO_FUNCTIONS, bare)])
        return rows[np.lexsort((rows, self.value[rows]))].astype(np.int64, copy=False)

    def name(self, row: int) -> str:
        """Return the symbol's name."""
        return self.name_at(int(self.name_offset[row]))

    def names(self, rows: Iterable[int]) -> list[str]:
        """Return the names of many symbols."""
        offsets = self.name_offset[rows if isinstance(rows, np.ndarray) else np.fromiter(rows, np.int64)]
        if not self.strings.is_closed or offsets.max(initial=0) >= len(self.strings):
            return list(map(self.name_at, offsets.tolist()))
        return [str(text, "utf-8", "surrogateescape") for text in self.strings.texts(offsets)]

    def hashes(self, rows: I64 | U32, *, of_kin: bool = False) -> U64:
        """Return the hash of each symbol's name, or of its kin (see `icf.aliases`)."""
        return self.strings.hashes(self.name_offset[rows], of_kin=of_kin)

    def begin_with(self, prefixes: tuple[bytes, ...], rows: I64) -> Mask:
        """Return which of these symbols have a name that begins with one of the prefixes."""
        return self.strings.begin_with(prefixes, self.name_offset[rows])

    def holds(self, part: bytes, rows: I64) -> Mask:
        """Return which of these symbols have `part` in their names; much faster than checking each name."""
        starts: list[int] = []  # of the strings that have it
        at: list[int] = []
        for start, piece in self.strings.pieces():
            found = -1
            while (found := piece.find(part, found + 1)) >= 0:
                at.append(start + found)
                starts.append(start + piece.rfind(b"\0", 0, found) + 1)
        offsets = self.name_offset[rows]
        following = np.searchsorted(at, offsets)
        return np.append(starts, len(self.strings) + 1)[following] <= offsets  # a name may end another's string

    def mentions(self, part: bytes) -> bool:
        """Return whether any name has `part` in it; also true where two names, one after the other, look so."""
        return any(part in piece for _, piece in self.strings.pieces())

    def name_at(self, name_offset: int) -> str:
        """Return the string at an offset of the string table."""
        text = self.strings.text(name_offset) if name_offset else b""
        if text is None:
            raise FormatError(
                self.path,
                self.section,
                0,
                f"symbol name at {name_offset:#x} has no end in the string table of {len(self.strings)} bytes",
            )
        return str(text, "utf-8", "surrogateescape")

    @cached_property
    def lacks_locals(self) -> bool:
        """Whether local symbols were left out (-x): there is no source file, and no function that is always local.

        A version script makes others local. `strip -g` leaves out source files.
        """
        if (self.type == STT_FILE).any():
            return False
        is_local = (self.type == STT_FUNC) & (self.bind == STB_LOCAL) & self.is_defined & (self.visibility == 0)
        if not self.is_elf:
            return not is_local.any()
        return not self.begin_with(_ALWAYS_LOCAL, np.flatnonzero(is_local)).any()

    @cached_property
    def file_rows(self) -> I64:
        """For each row the nearest STT_FILE row at or before it, -1 if there is none."""
        rows = np.where(self.type == STT_FILE, np.arange(self.count, dtype=np.int64), np.int64(-1))
        if not self.count:
            return rows
        rows = np.maximum.accumulate(rows)
        if self._made_local_last:
            rows[int(rows[-1]) + 1 :] = -1
        return rows

    def file_name(self, row: int) -> str:
        """Return the source file of a local symbol, as the nearest preceding STT_FILE names it; "" if it is not known.

        gold puts symbols that it makes local (hidden symbols, version scripts) after those of all files.
        """
        if self.bind[row] != STB_LOCAL:
            return ""
        file_row = int(self.file_rows[row])
        return source_name(self.name(file_row)) if file_row >= 0 else ""


def read_symbols(image: ElfFile, section_idx: int, *, made_local_last: bool = False) -> Symbols:
    """Return the symbol table in section `section_idx`, an empty one for section 0.

    `made_local_last`: symbols that the linker made local stand after those of all files.
    """
    path = image.path
    if section_idx == 0:
        return Symbols(path, "symbols", np.empty(0, dtype=SYM), StringTable(memoryview(b"")))
    place = image.headers.shoff + section_idx * SHDR.size
    if section_idx >= len(image.sections):
        raise FormatError(path, SECTION_HEADERS, 0, f"symbol table is section {section_idx} of {len(image.sections)}")
    section = image.sections[section_idx]
    if section.type not in (SHT_SYMTAB, SHT_DYNSYM):
        raise FormatError(
            path, SECTION_HEADERS, place, f"section {section.name} has type {section.type}, must be a symbol table"
        )
    stored = image.contents(section)
    if section.entsize != SYM_SIZE_BYTES or len(stored) % SYM_SIZE_BYTES:
        raise FormatError(
            path,
            SECTION_HEADERS,
            place,
            f"symbol table {section.name} has {len(stored)} bytes in entries of {section.entsize}, "
            f"must be entries of {SYM_SIZE_BYTES}",
        )
    if section.link >= len(image.sections) or image.sections[section.link].type != SHT_STRTAB:
        raise FormatError(
            path, SECTION_HEADERS, place, f"symbol table {section.name} has sh_link {section.link}: no string table"
        )
    extended = None
    for other in image.sections:
        if other.type == SHT_SYMTAB_SHNDX and other.link == section_idx:
            indices = image.contents(other)
            extended = np.frombuffer(indices[: len(indices) // 4 * 4], dtype="<u4")
    strings = image.sections[section.link]
    names = image.unkept(strings)
    if len(names) <= _KEPT_BYTES:
        names = Contents(names[:])
    raw = np.frombuffer(stored, dtype=SYM)
    if share_too_much(names, raw["st_name"], SYM.itemsize):
        raise FormatError(path, section.name, 0, f"names share the {len(names)} bytes of {strings.name} too often")
    return Symbols(path, section.name, raw, StringTable(names), extended, made_local_last=made_local_last)
