"""The targets of switches: jump tables.

    x86-64    movslq (%rdx,%rax,4), %rax; add %rdx, %rax; jmp *%rax     distances from the table
              jmp *table(,%rax,8)                                       addresses
    AArch64   ldrb w1, [x0, x1]; adr x2, base; add x0, x2, w1, sxtb #2  distances from a label, in words

The image does not record how long a table is: it ends at the next table, or at an entry that is not an address of code.
Reading too many entries is harmless, as callers only need the places where a jump may lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from icf.code.branches import executable_sections
from icf.columns import I64, U64
from icf.elf.types import SHT_RELA
from icf.sets import distinct, union

if TYPE_CHECKING:
    from icf.elf.image import Image
    from icf.image import AnyImage

SIGNED, IN_WORDS = 16, 32  # with the size of an entry, in its code
ADDRESSES = 8  # the code of a table of addresses
_MOST_ENTRIES = 1 << 16


class JumpTables:
    """Reads the tables of one image."""

    def __init__(self, image: AnyImage) -> None:
        self._image = image
        self._code = [(section.vaddr, section.vaddr + section.size_bytes) for section in executable_sections(image)]
        self._relocated: tuple[U64, U64] | None = None
        self._read: dict[tuple[int, int, int, int], I64] = {}
        self._places: I64 = np.empty(0, np.int64)  # where tables begin, ascending

    def meet(self, places: U64) -> None:
        """Record starts of jump tables: a table ends where the next one starts."""
        self._places = union(self._places, places.astype(np.int64))

    def targets(self, place: int, code: int, base: int) -> I64:
        """Return the possible targets of the jump through the table at `place`, ascending.

        `base` is added to its entries.
        """
        end = self._end(place, code)
        key = (place, end, code, base)
        if key not in self._read:
            self._read[key] = distinct(self._read_entries(place, end, code, base))
        return self._read[key]

    def entries(self, place: int, code: int, base: int) -> I64:
        """Return the target of each entry of the table at `place`, in its order."""
        return self._read_entries(place, self._end(place, code), code, base)

    def _end(self, place: int, code: int) -> int:
        """Return an upper bound for the end of the table."""
        row = int(np.searchsorted(self._places, place, side="right"))
        return int(self._places[row]) if row < len(self._places) else place + (code & 15) * _MOST_ENTRIES

    def _read_entries(self, place: int, end: int, code: int, base: int) -> I64:
        size_bytes = code & 15
        count = min((end - place) // size_bytes, _MOST_ENTRIES)
        raw = self._image.read(place, count * size_bytes)
        count = len(raw) // size_bytes
        sign = "i" if code & SIGNED else "u"
        entries = np.frombuffer(raw[: count * size_bytes], f"<{sign}{size_bytes}").astype(np.int64)
        if code == ADDRESSES and self._image.format == "ELF":  # there words have their values already
            entries = self._with_relocations(self._image, place, entries)
        if code & IN_WORDS:
            entries = entries << 2
        targets = (entries + np.int64(base)).view(np.uint64)
        in_code = np.zeros(count, np.bool_)
        for low, high in self._code:
            in_code |= (targets >= np.uint64(low)) & (targets < np.uint64(high))
        targets = targets if in_code.all() else targets[: int(np.argmin(in_code))]
        return targets.astype(np.int64)

    def _with_relocations(self, image: Image, place: int, entries: I64) -> I64:
        """Return words with the values that the loader stores."""
        if self._relocated is None:
            offsets, addends = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
            for section in image.sections:
                found = image.relocations(section) if section.is_alloc and section.type == SHT_RELA else None
                if found is not None and found.count:
                    own = found.symbol == 0
                    offsets.append(found.offset[own])
                    addends.append(found.addend[own])
            offset, addend = np.concatenate(offsets), np.concatenate(addends)
            order = np.argsort(offset, kind="stable")
            self._relocated = offset[order], addend[order].view(np.uint64)
        offset, value = self._relocated
        if len(offset):
            places = np.uint64(place) + np.arange(len(entries), dtype=np.uint64) * np.uint64(8)
            row = np.minimum(np.searchsorted(offset, places), len(offset) - 1)
            entries = np.where(offset[row] == places, value[row].view(np.int64), entries)
        return entries
