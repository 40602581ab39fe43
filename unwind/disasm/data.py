"""The contents of an address outside of functions: a symbol, a string constant, a pointer that the loader fills.

Symbols name data; if several begin at one place all are shown, as lld folds constant data as well. A string is
shown where readable text ends in a NUL in constant data that is not writable.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from icf.columns import I64, U64
from icf.elf.image import Image
from icf.elf.types import (
    ET_EXEC,
    PT_GNU_RELRO,
    SHF_EXECINSTR,
    SHF_STRINGS,
    SHF_WRITE,
    SHT_NOBITS,
    STB_LOCAL,
    STT_NOTYPE,
    STT_OBJECT,
    Section,
)
from icf.vtables.words import CODE, DATA, LoadedData
from unwind.disasm.notes import Data

_WORD_BYTES = 8
_LONGEST_TEXT_BYTES = 4096
_SHORTEST_TEXT = 3  # below that, what looks like text is often a number
_READABLE = re.compile(r"(?:[^\x00-\x1f\x7f]|[\t\n\r]|\x1b\[)*")
_SYMBOLS_AT_MOST = 64
_NESTED_AT_MOST = 256  # symbols that are tried, as others may begin between a large one and an address in it
_MAPPING = re.compile(r"\$[adx](\.|$)")  # where code and data begin (AAELF64, 4.5.4)
GOT = (".got", ".got.plt")


class ImageData:
    """The data of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._loaded = LoadedData(image)
        sections = [section for section in image.sections if section.is_alloc and section.size_bytes and section.vaddr]
        self._sections = sorted(sections, key=lambda section: section.vaddr)
        self._section_starts = [section.vaddr for section in self._sections]
        self._relro = [
            range(segment.vaddr, segment.vaddr + segment.memsz)
            for segment in image.segments
            if segment.type == PT_GNU_RELRO
        ]

    def section_at(self, vaddr: int) -> Section | None:
        """Return the allocated section that holds `vaddr`."""
        idx = bisect_right(self._section_starts, vaddr) - 1
        if idx < 0 or vaddr >= self._sections[idx].vaddr + self._sections[idx].size_bytes:
            return None
        return self._sections[idx]

    def is_code(self, vaddr: int) -> bool:
        """Return whether code may lie there."""
        section = self.section_at(vaddr)
        return section is not None and bool(section.flags & SHF_EXECINSTR)

    def is_constant(self, vaddr: int) -> bool:
        """Return whether the bytes there stay as the loader has left them."""
        section = self.section_at(vaddr)
        if section is None:
            return False
        return not section.flags & SHF_WRITE or section.name in GOT or any(vaddr in part for part in self._relro)

    def at(self, vaddr: int, *, with_text: bool = False) -> Data | None:
        """Return the contents there; with `with_text` also the string. None: no section has the address."""
        section = self.section_at(vaddr)
        if section is None:
            return None
        start, names = self._names_around(vaddr)
        text = self._text(vaddr, section) if with_text else None
        if names:
            return Data(vaddr, names, vaddr - start, section.name, text)
        return Data(vaddr, (), vaddr - section.vaddr, section.name, text)

    def pointers(self, places: Iterable[int]) -> dict[int, int]:
        """Return the addresses that the words at some of `places` hold in a loaded image; imports are left out."""
        aligned = sorted({place for place in places if place % _WORD_BYTES == 0 and 0 <= place < 1 << 64})
        if not aligned:
            return {}
        words = self._loaded.words(np.array(aligned, np.uint64))
        found = {}
        for place, value, kind in zip(aligned, words.value.tolist(), words.kind.tolist(), strict=True):
            if kind in (CODE, DATA) and self._is_pointer(place, value, kind):
                found[place] = value
        return found

    def _is_pointer(self, place: int, value: int, kind: int) -> bool:
        """Return whether a word is an address for sure: without relocations a number may look like one."""
        if self._image.elf_type != ET_EXEC or kind == CODE:
            return True
        section = self.section_at(place)
        return (section is not None and section.name in GOT) or self._names_around(value)[0] == value

    def _text(self, vaddr: int, section: Section) -> str | None:
        if section.flags & (SHF_WRITE | SHF_EXECINSTR) or section.type == SHT_NOBITS:
            return None
        size_bytes = min(_LONGEST_TEXT_BYTES, section.vaddr + section.size_bytes - vaddr)
        content = bytes(self._image.read(vaddr, size_bytes))
        is_short = bool(section.flags & SHF_STRINGS) or self._is_among_text(vaddr, content.partition(b"\0")[0])
        return text_of(content, is_short=is_short)

    def _is_among_text(self, vaddr: int, raw: bytes) -> bool:
        """Return whether a short string stands between others: a number would be followed by zeros."""
        around = bytes(self._image.read(vaddr - 1, len(raw) + 3))
        return len(raw) > 0 and len(around) == len(raw) + 3 and around[0] == 0 and around[-1] != 0

    def _names_around(self, vaddr: int) -> tuple[int, tuple[str, ...]]:
        """Return the symbols that begin at one place and reach to `vaddr`, and that place; none: (-1, ())."""
        starts, ends, furthest, rows = self._symbols
        last = int(np.searchsorted(starts, np.uint64(vaddr), side="right")) - 1
        for idx in range(last, max(last - _NESTED_AT_MOST, -1), -1):
            if furthest[idx] <= vaddr:
                break
            if ends[idx] > vaddr:
                start = int(starts[idx])
                first, end = (int(np.searchsorted(starts, starts[idx], side=side)) for side in ("left", "right"))
                around = [first + at for at in np.flatnonzero(ends[first:end] > vaddr).tolist()]
                symbols = self._image.symbols
                sized = [at for at in around if symbols.size_bytes[rows[at]]] or around
                names = symbols.names(int(rows[at]) for at in sized[:_SYMBOLS_AT_MOST])
                if named := [name for name in dict.fromkeys(names) if name and not _MAPPING.match(name)]:
                    return start, tuple(named)
        return -1, ()

    @cached_property
    def _symbols(self) -> tuple[U64, U64, U64, I64]:
        """Start, end, the furthest end so far and row of the symbols of data, by address; global ones first."""
        symbols = self._image.symbols
        is_object = (symbols.type == STT_OBJECT) | (symbols.type == STT_NOTYPE)
        rows = np.flatnonzero(is_object & symbols.is_defined & (symbols.value > 0))
        rows = rows[np.lexsort((rows, symbols.bind[rows] == STB_LOCAL, symbols.value[rows]))]
        starts = symbols.value[rows]
        size_bytes = np.minimum(np.maximum(symbols.size_bytes[rows], np.uint64(1)), ~starts)
        ends = starts + size_bytes
        return starts, ends, np.maximum.accumulate(ends) if len(ends) else ends, rows


def text_of(content: bytes, *, is_short: bool = False) -> str | None:
    """Return the string at the beginning of some bytes; None if there is none. `is_short`: it may be short."""
    raw, nul, _ = content.partition(b"\0")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    if not nul or not (is_short or len(text) >= _SHORTEST_TEXT):
        return None
    return text if _READABLE.fullmatch(text) else None
