"""The answers of a symcache at many addresses, as numbers in arrays: for texts (`unwind.symbolize.many`) and for
frames.

    found = look_up_many(cache, vaddrs, has_tables=True)
    found.column(KIND)                                          # NOTHING, ONE, ONE_OR_MORE or SEVERAL at each

One object for each frame would take a hundred times as long. All records are checked at once, so this pays only for
many addresses.
"""

from __future__ import annotations

import gc
from array import array
from typing import TYPE_CHECKING, NamedTuple

from unwind.program.frame import Frame
from unwind.symcache.reader import columns as col
from unwind.symcache.reader._look_up import look_up
from unwind.symcache.reader.symcache import MANY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unwind.symcache.reader.symcache import SymCache

_COMPARED = 16  # the common part of more functions is not computed

_NOWHERE = (1 << 64) - 1
_FRAME_LIMIT = 1 << 22
_new: Callable[[type[Frame], tuple[str | int, ...]], Frame] = tuple.__new__  # twice as fast as the class


class Many(NamedTuple):
    """Rows in the order of the addresses; `_look_up.look_up` describes them."""

    answers: array[int]  # kind, first chain, number of chains, entry, size of the function, flags
    chains: array[int]  # first frame, last frame + 1
    frames: array[int]  # name, file, line, column
    chain_count: int
    frame_count: int

    def column(self, number: int) -> array[int]:
        """Return one column of the answers, which `columns` names."""
        return self.answers[number :: col.ANSWER_WIDTH]

    def numbers(self, column: int) -> set[int]:
        """Return the distinct numbers in FRAME_NAME or FRAME_FILE of the frames."""
        return set(self.frames[column : col.FRAME_WIDTH * self.frame_count : col.FRAME_WIDTH])

    def tables(self) -> tuple[memoryview, memoryview, memoryview]:
        """Return all three for a kernel."""
        answers, chains = _rows(self.answers, col.ANSWER_WIDTH), _rows(self.chains, col.CHAIN_WIDTH)
        return answers, chains, _rows(self.frames, col.FRAME_WIDTH)


def frames_many(cache: SymCache, vaddrs: Sequence[int]) -> list[list[Frame]]:
    """Return what `SymCache.frames` returns for each address, of the first member; each record is read only once."""
    if len(vaddrs) >= MANY and cache.is_complete:
        return _frames_at_once(cache, vaddrs)
    found: list[list[Frame]] = [[] for _ in vaddrs]
    for record, places in cache.by_body(vaddrs):
        here = [vaddrs[i] for i in places]
        for i, frames in zip(places, cache.chains(record, here), strict=True):
            found[i] = list(frames)
    return found


def _frames_at_once(cache: SymCache, vaddrs: Sequence[int]) -> list[list[Frame]]:
    was_collecting = gc.isenabled()
    gc.disable()  # there is no garbage, and the collector would walk half a million new objects again and again
    try:
        return _frames_of(cache, look_up_many(cache, vaddrs, True, col.FIRST))
    except TooMany:
        half = len(vaddrs) // 2
        return _frames_at_once(cache, vaddrs[:half]) + _frames_at_once(cache, vaddrs[half:])
    finally:
        if was_collecting:
            gc.enable()


def _frames_of(cache: SymCache, found: Many) -> list[list[Frame]]:
    """Return the frames of the first chain at each address."""
    names = {number: cache.strings.text(number) for number in found.numbers(col.FRAME_NAME)}
    paths = {number: cache.strings.path_of(number) for number in found.numbers(col.FRAME_FILE)}
    is_inlined = bytearray(b"\1") * found.frame_count
    edges = found.chains[: col.CHAIN_WIDTH * found.chain_count]
    for last in edges[col.LAST_FRAME :: col.CHAIN_WIDTH]:
        is_inlined[last - 1] = 0
    numbers = iter(found.frames[: col.FRAME_WIDTH * found.frame_count])
    rows = zip(*[numbers] * col.FRAME_WIDTH, map(bool, is_inlined), strict=True)
    frames = [
        _new(Frame, (names[name], paths[path], line, column, is_call)) for name, path, line, column, is_call in rows
    ]
    return [
        frames[edges[col.CHAIN_WIDTH * chain + col.FIRST_FRAME] : edges[col.CHAIN_WIDTH * chain + col.LAST_FRAME]]
        if count
        else []
        for chain, count in zip(found.column(col.FIRST_CHAIN), found.column(col.CHAINS), strict=True)
    ]


class TooMany(Exception):
    """Raised if more frames exist than fit at a time: ask for fewer addresses."""


def look_up_many(cache: SymCache, vaddrs: Sequence[int], has_tables: bool, wanted: int = col.AGREED) -> Many:
    """Return the answer at each address; `cache` must be complete. Raise FormatError where a record breaks a rule."""
    count = len(vaddrs)
    base, starts, sizes, infos = cache.wide_columns()
    records = cache.container.section("records")
    offsets = [vaddr - base if base <= vaddr < _NOWHERE else _NOWHERE for vaddr in vaddrs]
    order = array("I", sorted(range(count), key=offsets.__getitem__))
    ascending = array("Q", [offsets[i] for i in order])
    found, answers = _zeros("I", col.FOUND_HEIGHT * count), _zeros("Q", col.ANSWER_WIDTH * count)
    table, numbers, nodes = _zeros("Q", 512), _zeros("Q", 1 << 13), _zeros("I", col.NODE_HEIGHT * 512)
    frames, chains = _zeros("I", col.FRAME_WIDTH * (4 * count + 64)), _zeros("I", col.CHAIN_WIDTH * count)
    state = memoryview(_zeros("Q", 8))
    while True:
        status = look_up(
            records, starts, sizes, infos, memoryview(ascending), memoryview(order), has_tables, _COMPARED, wanted,
            memoryview(table), memoryview(numbers), _columns(nodes, col.NODE_HEIGHT), _columns(found, col.FOUND_HEIGHT),
            _rows(answers, col.ANSWER_WIDTH), _rows(frames, col.FRAME_WIDTH), _rows(chains, col.CHAIN_WIDTH), state,
        )  # fmt: skip
        if status == 0:
            return Many(answers, chains, frames, state[col.CHAIN_COUNT], state[col.FRAME_COUNT])
        if status < 0:
            raise cache.error("records", state[col.FAULT] - 1, "members, lines or inlined calls break a rule")
        needed, lacking = state[col.NEEDED], state[col.LACKING]
        is_of_many = count > 1 and lacking in (col.FRAME_ROOM, col.CHAIN_ROOM)
        if is_of_many and max(needed, state[col.FRAME_COUNT]) > _FRAME_LIMIT:
            raise TooMany
        if lacking == col.TABLE_ROOM:
            table = _zeros("Q", needed)
        elif lacking == col.NUMBER_ROOM:
            numbers = _zeros("Q", needed)
        elif lacking == col.NODE_ROOM:
            nodes = _zeros("I", 2 * col.NODE_HEIGHT * needed)
        elif lacking == col.FRAME_ROOM:
            frames.frombytes(bytes(4 * (col.FRAME_WIDTH * needed - len(frames))))
        else:
            chains.frombytes(bytes(4 * (col.CHAIN_WIDTH * 2 * needed - len(chains))))


def _zeros(code: str, count: int) -> array[int]:
    return array(code, bytes(count * (8 if code == "Q" else 4)))


def _rows(values: array[int], width: int) -> memoryview:
    """Return a table with so many columns."""
    return _cast(values, (len(values) // width, width))


def _columns(values: array[int], height: int) -> memoryview:
    """Return a table with so many rows."""
    return _cast(values, (height, len(values) // height))


def _cast(values: array[int], shape: tuple[int, int]) -> memoryview:
    return memoryview(values).cast("B").cast("Q" if values.typecode == "Q" else "I", shape)
