"""The answers of a symcache at many addresses, as numbers in arrays: for texts (`unwind.symbolize.many`) and for
frames.

    found = look_up_many(cache, vaddrs, has_tables=True)
    found.column(0)                                             # NOTHING, ONE, ONE_OR_MORE or SEVERAL at each

One object for each frame would take a hundred times as long. All records are checked at once, so this pays only for
many addresses.
"""

from __future__ import annotations

import gc
from array import array
from typing import TYPE_CHECKING, NamedTuple

from unwind.program.frame import Frame
from unwind.symcache.reader._look_up import look_up
from unwind.symcache.reader.symcache import MANY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unwind.symcache.reader.symcache import SymCache

NOTHING, ONE, ONE_OR_MORE, SEVERAL = range(4)  # kinds: no function, one, one that may be others, folded ones
FIRST, AGREED, EACH = range(3)  # chains of folded functions: of the first; their common part; of all of them
SELF = 0xFFFFFFFF  # the name of all of them together
COMPARED = 16  # the common part of more functions is not computed

_NOWHERE = (1 << 64) - 1
_FAULT, _DONE, _FRAMES, _CHAINS, _LACKING, _NEEDED = 1, 2, 3, 4, 5, 6
_TABLE, _NUMBERS, _NODES, _FRAME_ROOM, _CHAIN_ROOM = range(1, 6)
_ANSWER, _FRAME, _CHAIN, _NODE = 6, 4, 2, 8
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
        """Return one column of the answers."""
        return self.answers[number::_ANSWER]

    def numbers(self, column: int) -> set[int]:
        """Return the names (0) or paths (1) in the frames."""
        return set(self.frames[column : _FRAME * self.frame_count : _FRAME])

    def tables(self) -> tuple[memoryview, memoryview, memoryview]:
        """Return all three for a kernel."""
        return _rows(self.answers, _ANSWER), _rows(self.chains, _CHAIN), _rows(self.frames, _FRAME)


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
    cache.check_names()
    was_collecting = gc.isenabled()
    gc.disable()  # there is no garbage, and the collector would walk half a million new objects again and again
    try:
        return _frames_of(cache, look_up_many(cache, vaddrs, True, FIRST))
    except TooMany:
        half = len(vaddrs) // 2
        return _frames_at_once(cache, vaddrs[:half]) + _frames_at_once(cache, vaddrs[half:])
    finally:
        if was_collecting:
            gc.enable()


def _frames_of(cache: SymCache, found: Many) -> list[list[Frame]]:
    """Return the frames of the first chain at each address."""
    names = {number: cache.text(number) for number in found.numbers(0)}
    paths = {number: cache.path_of(number) for number in found.numbers(1)}
    is_inlined = bytearray(b"\1") * found.frame_count
    for last in found.chains[1 : _CHAIN * found.chain_count : _CHAIN]:
        is_inlined[last - 1] = 0
    rows = zip(*[iter(found.frames[: _FRAME * found.frame_count])] * _FRAME, map(bool, is_inlined), strict=True)
    frames = [
        _new(Frame, (names[name], paths[path], line, column, is_call)) for name, path, line, column, is_call in rows
    ]
    edges = found.chains
    return [
        frames[edges[_CHAIN * chain] : edges[_CHAIN * chain + 1]] if count else []
        for chain, count in zip(found.column(1), found.column(2), strict=True)
    ]


class TooMany(Exception):
    """Raised if more frames exist than fit at a time: ask for fewer addresses."""


def look_up_many(cache: SymCache, vaddrs: Sequence[int], has_tables: bool, wanted: int = AGREED) -> Many:
    """Return the answer at each address; `cache` must be complete. Raise FormatError if a record breaks a rule."""
    count = len(vaddrs)
    base, starts, sizes, infos = cache.wide_columns()
    records = cache.container.section("records")
    offsets = [vaddr - base if base <= vaddr < _NOWHERE else _NOWHERE for vaddr in vaddrs]
    order = array("I", sorted(range(count), key=offsets.__getitem__))
    ascending = array("Q", [offsets[i] for i in order])
    found, answers = _zeros("I", 4 * count), _zeros("Q", _ANSWER * count)
    table, numbers, nodes = _zeros("Q", 512), _zeros("Q", 1 << 13), _zeros("I", _NODE * 512)
    frames, chains = _zeros("I", _FRAME * (4 * count + 64)), _zeros("I", _CHAIN * count)
    state = memoryview(_zeros("Q", 8))
    while True:
        status = look_up(
            records, starts, sizes, infos, memoryview(ascending), memoryview(order), has_tables, COMPARED, wanted,
            memoryview(table), memoryview(numbers), _columns(nodes, _NODE), _columns(found, 4), _rows(answers, _ANSWER),
            _rows(frames, _FRAME), _rows(chains, _CHAIN), state,
        )  # fmt: skip
        if status == 0:
            return Many(answers, chains, frames, state[_CHAINS], state[_FRAMES])
        if status < 0:
            raise cache.error("records", state[_FAULT] - 1, "members, lines or inlined calls break a rule")
        needed = state[_NEEDED]
        if max(needed, state[_FRAMES]) > _FRAME_LIMIT and count > 1 and state[_LACKING] in (_FRAME_ROOM, _CHAIN_ROOM):
            raise TooMany
        lacking = state[_LACKING]
        if lacking == _TABLE:
            table = _zeros("Q", needed)
        elif lacking == _NUMBERS:
            numbers = _zeros("Q", needed)
        elif lacking == _NODES:
            nodes = _zeros("I", 2 * _NODE * needed)
        elif lacking == _FRAME_ROOM:
            frames.frombytes(bytes(4 * (_FRAME * needed - len(frames))))
        else:
            chains.frombytes(bytes(4 * (_CHAIN * 2 * needed - len(chains))))


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
