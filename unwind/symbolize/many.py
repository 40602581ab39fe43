"""Writes the answers to many addresses at once: applies a `Style`, made for one, to all addresses of a symcache.

The text of a frame or an address is a *part*: literal text with the marks below in it for what is different each time.
Each name and path is prepared once, and so are the texts around the frames of a folded function; then a kernel copies.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from unwind.symbolize import marks
from unwind.symbolize._write import write
from unwind.symcache.format.records import SELF
from unwind.symcache.reader.columns import ENTRY, FRAME_FILE, FRAME_NAME, KIND, SEVERAL
from unwind.symcache.reader.many import Many, TooMany, look_up_many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unwind.symbolize.symbolizer import Symbolizer
    from unwind.symcache.reader.symcache import SymCache

MARKS = tuple(map(chr, range(marks.NAME, marks.LONG_ADDRESS + 1)))
NAME, FILE, _AROUND, LINE, LINE_OR_MARK, COLUMN, START, ADDRESS, LONG_ADDRESS = MARKS
_PIECE = re.compile(f"([^{NAME}-{LONG_ADDRESS}]+)|(.)", re.DOTALL)
_STR = "surrogateescape"
_OUT_BYTES = 1 << 18
_KEPT_BYTES = 1 << 25


class Style(NamedTuple):
    """How to write answers."""

    head: str  # before each: a part
    frames: tuple[str, str, str, str]  # parts: of the only frame, the first, one in the middle, the last
    shown: int
    wanted: int  # chains of folded functions, as in `look_up_many`
    name: Callable[[str], str]  # of a linkage name
    path: Callable[[str], str]
    nothing: str  # for no function
    one: tuple[str, str]  # before and after the frames of a function
    one_or_more: tuple[str, str]  # of one where others may have been folded
    several: Callable[[list[str], bool], list[str]]  # of folded ones: their name, before and after each chain


class Bulk:
    """Writes many answers at once in one style, from the symcaches of any number of images."""

    def __init__(self) -> None:
        self._texts: WeakKeyDictionary[Symbolizer, tuple[str, Texts]] = WeakKeyDictionary()

    def of(self, symbolizer: Symbolizer, image: str, style: Callable[[str], Style]) -> Texts | None:
        """Return a bulk writer for the answers of a symbolizer; None if that does not cover all of its image."""
        cache = symbolizer.whole_cache
        if cache is None:
            return None
        known = self._texts.get(symbolizer)
        if known is None or known[0] != image:
            known = self._texts[symbolizer] = image, Texts(cache, symbolizer.has_tables, style(image))
        return known[1]


class Texts:
    """Writes in one style what one symcache has, which must be complete."""

    def __init__(self, cache: SymCache, has_tables: bool, style: Style) -> None:
        self._cache, self._has_tables, self._style = cache, has_tables, style
        self._reset()

    def write(self, vaddrs: Sequence[int], asked: Sequence[int]) -> Iterator[str]:
        """Yield the answers in order, many in each piece; `asked` is the text of each address."""
        if len(self._texts) > _KEPT_BYTES:
            self._reset()
        try:
            found = look_up_many(self._cache, vaddrs, self._has_tables, self._style.wanted)
        except TooMany:
            half = len(vaddrs) // 2
            yield from self.write(vaddrs[:half], asked[:half])
            yield from self.write(vaddrs[half:], asked[half:])
            return
        self._make_ready(found)
        around = array("I", map(self._around, found.column(KIND), found.column(ENTRY)))
        base, starts, *_ = self._cache.wide_columns()
        arguments = (
            memoryview(array("Q", asked)), memoryview(around), *found.tables(), starts, base,
            memoryview(self._names), memoryview(self._paths), memoryview(self._texts), memoryview(self._ends),
            memoryview(self._items).cast("B").cast("I", (len(self._items) // 2, 2)), memoryview(self._parts),
            self._style.shown,
        )  # fmt: skip
        out, state = memoryview(bytearray(_OUT_BYTES)), memoryview(array("Q", [0]))
        while state[0] < len(asked):
            size_bytes = write(*arguments, out, state)
            if not size_bytes:  # one answer is longer
                out = memoryview(bytearray(2 * len(out)))
            else:
                yield str(out[:size_bytes], "utf-8", _STR)

    def _reset(self) -> None:
        style, strings = self._style, self._cache.strings
        self._texts, self._ends = bytearray(), array("Q", [0])
        self._names, self._paths = (array("I", bytes(4 * count)) for count in (strings.name_count, strings.file_count))
        self._of_several: dict[int, int] = {}  # by entry
        self._of_kind = [self._add(style.nothing)]
        self._of_kind += [self._add("", *each) for each in (style.one, style.one_or_more)]
        self._items, self._parts = array("I"), array("I", [0])
        for part in (style.head, *style.frames, _AROUND, _AROUND):
            for text, mark in _PIECE.findall(part):
                self._items.extend((marks.TEXT, self._add(text)) if text else (ord(mark), 0))
            self._parts.append(len(self._items) // 2)

    def _add(self, *texts: str) -> int:
        """Store texts; return the number of the first."""
        number = len(self._ends) - 1
        for text in texts:
            self._texts += text.encode("utf-8", _STR)
            self._ends.append(len(self._texts))
        return number

    def _make_ready(self, found: Many) -> None:
        """Prepare the texts of names and paths that are new."""
        strings, style = self._cache.strings, self._style
        for number in found.numbers(FRAME_NAME):
            if number != SELF and not self._names[number]:
                self._names[number] = self._add(style.name(strings.text(number)))
        for number in found.numbers(FRAME_FILE):
            if not self._paths[number]:
                self._paths[number] = self._add(style.path(strings.path_of(number)))

    def _around(self, kind: int, entry: int) -> int:
        if kind != SEVERAL:
            return self._of_kind[kind]
        number = self._of_several.get(entry)
        if number is None:
            names, is_complete = self._cache.members(entry)
            number = self._of_several[entry] = self._add(*self._style.several(names, is_complete))
        return number
