"""Where exceptions enter functions: the landing pads in `.gcc_except_table` (Itanium C++ ABI, exception handling).

An FDE has the address of its function's table:

    u8 encoding, start of the landing pads (omitted: that of the function)
    u8 encoding, ULEB128 distance to the table of types (omitted: neither)
    u8 encoding of the call sites, ULEB128 bytes of them
    call sites: start, size, landing pad (0: none), each as encoded; ULEB128 action

No jump leads to a landing pad. The registers that calls keep have there what they had at the call that threw.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from icf.columns import I64, U64
from icf.dwarf.cfi.index import FdeIndex, find_eh_frame
from icf.dwarf.cfi.pointers import OMITTED, read_pointer, read_value
from icf.errors import FormatError
from icf.reader import Reader

if TYPE_CHECKING:
    from icf.dwarf.cfi.entries import Fde, FrameSection
    from icf.elf.image import Image

SECTION = ".gcc_except_table"
_LONGEST_TABLE_BYTES = 1 << 20
_LIMIT = 1 << 62  # of addresses
_MALFORMED = frozenset({-1})


class LandingPads:
    """Finds landing pads of functions by their starts; the sections are read on first use.

    Each function has a table of its own. Those of a hostile file may share one; beyond twice the bytes of the section
    tables count as malformed.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        section = image.named(SECTION)
        self._known: dict[int, frozenset[int]] = {}  # by start
        self._budget_bytes = 2 * section.size_bytes if section is not None else 0

    def __call__(self, starts: U64) -> tuple[I64, U64]:
        """Return the landing pads of functions, ascending, and the functions whose tables are malformed."""
        pads: set[int] = set()
        unread: list[int] = []
        try:
            opened = self._opened
        except FormatError:
            return np.empty(0, np.int64), starts
        if opened is not None:
            for start in starts.tolist():
                found = self._known.get(start, _MALFORMED)
                if start not in self._known:
                    found = self._known[start] = self._find(*opened, start)
                if found is _MALFORMED:
                    unread.append(start)
                else:
                    pads |= found
        return np.array(sorted(pads), np.int64), np.array(unread, np.uint64)

    @cached_property
    def _opened(self) -> tuple[FrameSection, FdeIndex] | None:
        opened = find_eh_frame(self._image)
        return None if opened is None else (opened[0], FdeIndex(*opened))

    def _find(self, section: FrameSection, index: FdeIndex, start: int) -> frozenset[int]:
        """Return the landing pads of one function, or _MALFORMED."""
        try:
            fde = index.find(start)
            table = _table_of(section, index, fde) if fde is not None else 0
            return self._read(table, fde.low) if fde is not None and table else frozenset()
        except FormatError:
            return _MALFORMED

    def _read(self, vaddr: int, function: int) -> frozenset[int]:
        """Return the landing pads in the table at an address."""
        reader = Reader(self._image.read(vaddr, _LONGEST_TABLE_BYTES), self._image.path, SECTION)
        encoding = reader.u8()
        first = function if encoding == OMITTED else read_pointer(reader, encoding, vaddr)
        if reader.u8() != OMITTED:
            reader.uleb()
        encoding, size_bytes = reader.u8(), reader.uleb()
        if size_bytes > reader.remaining:
            raise reader.error(f"call sites of {size_bytes} bytes, {reader.remaining} are left")
        reader.end = reader.pos + size_bytes
        self._budget_bytes -= reader.end
        if self._budget_bytes < 0:
            raise reader.error("tables of functions overlap")
        pads: set[int] = set()
        while reader.remaining:
            read_value(reader, encoding)
            read_value(reader, encoding)
            distance = read_value(reader, encoding)
            reader.uleb()
            if distance:
                pads.add(first + distance)
        return frozenset(pad for pad in pads if 0 <= pad < _LIMIT)


def _table_of(section: FrameSection, index: FdeIndex, fde: Fde) -> int:
    """Return the address of the table of a function; 0 if it has none."""
    encoding = index.cie(fde.cie_offset).table_encoding
    if encoding == OMITTED or not fde.data_at:
        return 0
    value = read_value(section.reader(fde.data_at, fde.start), encoding)
    return read_pointer(section.reader(fde.data_at, fde.start), encoding, section.vaddr) if value else 0
