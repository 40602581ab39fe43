"""The FDE of an address.

`.eh_frame_hdr` is a table for binary search (LSB Core, 10.6.2):

    u8 version 1 | u8 encodings: of the pointer to .eh_frame, of the count, of the table | pointer | count
    table: (first address, address of the FDE) each, ascending

All linkers write its entries as two signed words of 4 bytes relative to the table's section. What is encoded otherwise,
and a section without a table, is read from its start to its end once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from icf.columns import U64
from icf.dwarf.cfi.entries import Cie, Entry, Fde, FrameSection, read_cie, read_entry, read_fde
from icf.dwarf.cfi.pointers import OMITTED, RELATIVE_TO_DATA, read_pointer, read_value
from icf.elf.types import SHT_NOBITS
from icf.errors import FormatError
from icf.reader import Reader
from icf.sets import distinct

if TYPE_CHECKING:
    from icf.elf.image import Image

_SORTED_WORDS = RELATIVE_TO_DATA | 0xB
_ENTRY_BYTES = 8


def find_eh_frame(image: Image) -> tuple[FrameSection, tuple[memoryview, int] | None] | None:
    """Return `.eh_frame`, and contents and address of `.eh_frame_hdr`; None where there is none."""
    found = image.named(".eh_frame")
    if found is None or found.type == SHT_NOBITS:
        return None
    section = FrameSection(image.path, ".eh_frame", image.contents(found), found.vaddr, image.machine)
    header = image.named(".eh_frame_hdr")
    if header is None or header.type == SHT_NOBITS or not header.size_bytes:
        return section, None
    return section, (image.contents(header), header.vaddr)


class FdeIndex:
    """Finds FDEs of one section; `table` is the contents and address of `.eh_frame_hdr`, if there is one."""

    def __init__(self, section: FrameSection, table: tuple[memoryview, int] | None = None) -> None:
        self._section = section
        self._cies: dict[int, Cie] = {}
        self._fdes: dict[int, Fde] = {}  # by offset
        self._starts, self._offsets = self._of_table(table) if table is not None else (None, None)
        self._scanned: tuple[list[int], list[Fde]] | None = None

    def find(self, vaddr: int) -> Fde | None:
        """Return the FDE that covers an address; None if none does. Raises `FormatError` for one that is malformed."""
        if self._starts is not None and self._offsets is not None:
            at = int(np.searchsorted(self._starts, vaddr, side="right")) - 1 if vaddr < 1 << 63 else -1
            found = self.read(int(self._offsets[at])) if at >= 0 else None
        else:
            if self._scanned is None:
                fdes = sorted((fde for fde in self.scan() if fde.low < fde.high), key=lambda fde: fde.low)
                self._scanned = [fde.low for fde in fdes], fdes
            at = bisect_right(self._scanned[0], vaddr) - 1
            found = self._scanned[1][at] if at >= 0 else None
        return found if found is not None and found.low <= vaddr < found.high else None

    def read(self, offset: int) -> Fde:
        """Return the FDE at an offset; kept, as the addresses of a program lie in few of them."""
        fde = self._fdes.get(offset)
        if fde is None:
            entry = read_entry(self._section, offset) if 0 <= offset < len(self._section.data) else None
            if entry is None or entry.cie_offset is None:
                raise self._section.error(max(offset, 0), "is not an FDE")
            fde = self._fdes[offset] = self._fde(entry)
        return fde

    def starts(self) -> U64:
        """Return the first addresses of all FDEs, ascending."""
        if self._starts is not None:
            return distinct(self._starts.astype(np.uint64))
        return distinct(np.array([fde.low for fde in self.scan() if fde.low < fde.high], np.uint64))

    def cie(self, offset: int) -> Cie:
        """Return the CIE at an offset."""
        cie = self._cies.get(offset)
        if cie is None:
            cie = self._cies[offset] = read_cie(self._section, offset)
        return cie

    def scan(self) -> Iterator[Fde]:
        """Yield all FDEs of the section, in its order."""
        offset = 0
        while (entry := read_entry(self._section, offset)) is not None:
            if entry.cie_offset is not None:
                yield self._fde(entry)
            offset = entry.end

    def _fde(self, entry: Entry) -> Fde:
        assert entry.cie_offset is not None
        return read_fde(self._section, entry, self.cie(entry.cie_offset))

    def _of_table(
        self, table: tuple[memoryview, int]
    ) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]] | None, np.ndarray[tuple[int], np.dtype[np.int64]] | None]:
        """Return first addresses and offsets of FDEs from `.eh_frame_hdr`; None if they are not in the usual form."""
        data, vaddr = table
        reader = Reader(data, self._section.path, ".eh_frame_hdr")
        version = reader.u8()
        if version != 1:
            raise reader.error(f"version {version}, only 1 is known", 0)
        pointer, count_encoding, encoding = reader.u8(), reader.u8(), reader.u8()
        if encoding != _SORTED_WORDS or count_encoding == OMITTED or pointer == OMITTED:
            return None, None
        if read_pointer(reader, pointer, vaddr, vaddr) != self._section.vaddr:
            return None, None
        count = read_value(reader, count_encoding)
        if not 0 <= count <= reader.remaining // _ENTRY_BYTES:
            raise FormatError(
                self._section.path, ".eh_frame_hdr", reader.pos, f"{count} entries, {reader.remaining} bytes are left"
            )
        words = np.frombuffer(reader.take(count * _ENTRY_BYTES), np.int32).reshape(-1, 2).astype(np.int64) + vaddr
        return np.ascontiguousarray(words[:, 0]), words[:, 1] - self._section.vaddr
