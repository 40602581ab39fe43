"""Counts how often each instruction of a trace ran, by the calls that led to it: a recording like any other.

A sample is an instruction with the return addresses of its callers, and its weight is how often it ran so. What led
to a virtual call is known exactly: the trace has the address that the call loaded the function's address from, a slot
of the vtable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence

from icf.elf.types import Machine
from unwind.samples._tree import refill
from unwind.samples.recording import RecordedFrame, RecordedModule, RecordedProcess, Sample
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace import stack_columns as s
from unwind.trace._stacks import follow, refill_sites
from unwind.trace.decode import DecodeCache
from unwind.trace.reader import TraceReader, zeros
from unwind.trace.stretches import Left, same_slot

_FIRST_ROOM = 1 << 10
_MOST_FRAMES = 1 << 16  # of a stack; the outermost half of a deeper one is forgotten
_MOST_NODES = 1 << 19
_MOST_COUNTS = 1 << 21
_SLOT = re.compile(r"^qword ptr \[(?!rip)[a-z0-9]+(?: ([+-]) (0x[0-9a-f]+|\d+))?\]$")
_MOST_KEPT = 1 << 20  # frames of waiting threads; beyond it, the stacks of all of them are forgotten
_FRAMES_OF_THREAD = 16  # what a waiting thread costs besides
_OF_THREAD = tuple(range(s.DEPTH, s.NODE + 1)) + tuple(range(s.WAITS_FOR, s.TID))
_NO_VALUES = [0] * len(_OF_THREAD)

Place = Callable[[int], RecordedModule | None]  # the module that has an address


class TraceStacks:
    """The stacks of the threads of one file, each of which runs nowhere else; or of what is read of several files.

    Attributes:
        reader: of the rows that are followed.
    """

    def __init__(self, reader: TraceReader, process: RecordedProcess, ranges: Sequence[tuple[int, int]]) -> None:
        self.reader, self._process = reader, process
        self._ranges = zeros(max(len(ranges), 1), 2)
        for row, (start, end) in enumerate(ranges):
            self._ranges[row, 0], self._ranges[row, 1] = start, end
        self._state = zeros(s.STATE_WIDTH)
        self._waiting: dict[Hashable, tuple[list[int], bytes]] = {}  # _OF_THREAD and frames of threads
        self._kept = 0
        self._decoded: DecodeCache | None = None
        self._modules = sorted(process.modules, key=lambda module: module.start)
        self._frames = zeros(_FIRST_ROOM, s.FRAME_WIDTH)
        self._clear()

    def samples(self) -> Iterator[Sample]:
        """Yield the samples; one that ran long ago can come once more.

        Raises `FormatError` for a record that breaks a rule.
        """
        for rows in self.reader.rows():
            yield from self.follow(rows)
        yield from self.counted()

    def follow(self, rows: memoryview) -> Iterator[Sample]:
        """Count rows of the reader; yield what was counted before, if it is too much to be kept."""
        state = self._state
        state[s.ROW] = 0
        while True:
            tables = (self._sites, self._site_places, self._nodes, self._node_places, self._counts)
            follow(rows, self._ranges, state, self._frames, *tables)
            why = state[s.WHY]
            if why == s.NEEDS_ROWS:
                return
            if why == s.OTHER_THREAD:
                tid = rows[state[s.ROW], c.ADDRESS]
                self.keep(state[s.TID])
                self.go_on(tid, tid)
            elif why == s.NEEDS_FRAMES:
                self._frames = self._deeper(self._frames)
            elif state[s.NODE_COUNT] >= _MOST_NODES or state[s.COUNT_COUNT] >= _MOST_COUNTS:
                yield from self.counted()
                self._forget()
            else:
                self._grow()

    def counted(self) -> Iterator[Sample]:
        """Yield what was counted."""
        counts = self._counts
        for row in range(len(counts)):
            key, count = counts[row, 0], counts[row, 1]
            if key and count:
                node, code = (key - 1) >> s.SITE_BITS, (key - 1) & c.CHUNK_MASK
                yield Sample((self._frame(code), *self._path(node)), self._process, (count,), vptrs=self._vptrs(node))

    # Threads

    def keep(self, key: Hashable) -> None:
        """Keep the stack of the thread that ran, under a key."""
        state = self._state
        values = [state[each] for each in _OF_THREAD]
        if not any(values):
            return
        self._kept += values[0] + _FRAMES_OF_THREAD
        if self._kept > _MOST_KEPT:
            self._waiting.clear()
            self._kept = values[0] + _FRAMES_OF_THREAD
        self._waiting[key] = values, self._frames[: values[0]].tobytes()

    def go_on(self, key: Hashable, tid: int, *, is_wanted_again: bool = False) -> None:
        """Go on with the stack that was kept under a key; if there is none, the callers are not known."""
        state = self._state
        values, frames = self._waiting.get(key, (_NO_VALUES, b""))
        if key in self._waiting and not is_wanted_again:
            del self._waiting[key]
            self._kept -= values[0] + _FRAMES_OF_THREAD
        for each, value in zip(_OF_THREAD, values, strict=True):
            state[each] = value
        self._frames.cast("B")[: len(frames)] = frames
        state[s.TID] = tid

    def has_on_top(self, key: Hashable, left: Sequence[Left]) -> bool:
        """Return whether the stack that was kept under a key has some frames on top, the innermost first."""
        values, kept = self._waiting.get(key, (_NO_VALUES, b""))
        frames = memoryview(kept).cast("Q")
        depth, hidden = values[_OF_THREAD.index(s.DEPTH)], values[_OF_THREAD.index(s.HIDDEN)]
        if depth - hidden < len(left):
            return False
        for idx, each in enumerate(left):
            row = s.FRAME_WIDTH * (depth - 1 - idx)
            if frames[row + s.FRAME_IS_SIGNAL] or frames[row + s.FRAME_RETURN] != each.address:
                return False
            if not same_slot(each.slot, frames[row + s.FRAME_SLOT]):
                return False
        return True

    def _deeper(self, frames: memoryview) -> memoryview:
        """Return the frames with room for more; the outermost half is forgotten if there are too many."""
        count, state = len(frames), self._state
        if count < _MOST_FRAMES:
            return _larger(frames, 2 * count, s.FRAME_WIDTH)
        half = count // 2
        kept = zeros(count, s.FRAME_WIDTH)
        kept.cast("B")[: frames.nbytes // 2] = frames.cast("B")[frames.nbytes // 2 :]
        for row in range(half):
            kept[row, s.FRAME_HIDDEN] = max(kept[row, s.FRAME_HIDDEN] - half, 0)
        state[s.DEPTH] -= half
        state[s.HIDDEN] = max(state[s.HIDDEN] - half, 0)
        return kept

    # Tables

    def _clear(self) -> None:
        self._sites, self._site_places = zeros(_FIRST_ROOM, s.SITE_WIDTH), zeros(2 * _FIRST_ROOM, 3)
        self._nodes, self._node_places = zeros(_FIRST_ROOM), zeros(2 * _FIRST_ROOM, 2)
        self._counts = zeros(4 * _FIRST_ROOM, 2)
        self._state[s.NODE_COUNT] = self._state[s.COUNT_COUNT] = self._state[s.SITE_COUNT] = 0
        self._paths: dict[int, tuple[RecordedFrame, ...]] = {0: ()}
        self._first: dict[int, RecordedFrame] = {}
        self._of_site: dict[int, tuple[RecordedFrame, int]] = {}

    def _forget(self) -> None:
        """Begin new tables; what is on the stacks becomes unknown, which is what a path of calls was for."""
        self._clear()
        self._waiting.clear()
        self._kept = 0
        self._state[s.DEPTH] = self._state[s.HIDDEN] = self._state[s.NODE] = self._state[s.WAITS_FOR] = 0

    def _grow(self) -> None:
        state = self._state
        if 2 * state[s.SITE_COUNT] + 8 >= len(self._sites):
            size = 2 * len(self._sites)
            self._sites = _larger(self._sites, size, s.SITE_WIDTH)
            places = zeros(2 * size, 3)
            refill_sites(self._sites, state[s.SITE_COUNT], places)
            self._site_places = places
        if 2 * state[s.NODE_COUNT] + 8 >= len(self._nodes):
            size = 2 * len(self._nodes)
            self._nodes = _larger(self._nodes, size)
            self._node_places = _refilled(self._node_places, 2 * size)
        if 2 * state[s.COUNT_COUNT] + 8 >= len(self._counts):
            self._counts = _refilled(self._counts, 2 * len(self._counts))

    # Samples

    def _frame(self, code: int) -> RecordedFrame:
        frame = self._first.get(code)
        if frame is None:
            address = self.reader.codes[code, c.CODE_ADDRESS]
            frame = self._first[code] = RecordedFrame(address, self._module(address))
        return frame

    def _path(self, node: int) -> tuple[RecordedFrame, ...]:
        """Return the frames of a path of calls, innermost first."""
        waiting = []
        while node not in self._paths:
            waiting.append(node)
            node = self._nodes[node] >> s.SITE_BITS
        for each in reversed(waiting):
            site = self._nodes[each] & c.CHUNK_MASK
            self._paths[each] = (self._site(site)[0], *self._paths[self._nodes[each] >> s.SITE_BITS])
        return self._paths[waiting[0] if waiting else node]

    def _vptrs(self, node: int) -> tuple[tuple[int, int], ...]:
        """Return the vtable pointers that a path's calls were made by: (index of the frame called, pointer)."""
        found, idx = [], 0
        while node:
            vptr = self._site(self._nodes[node] & c.CHUNK_MASK)[1]
            if vptr:
                found.append((idx, vptr))
            node, idx = self._nodes[node] >> s.SITE_BITS, idx + 1
        return tuple(found)

    def _site(self, site: int) -> tuple[RecordedFrame, int]:
        """Return the frame of a call, and the vtable pointer that it loaded the called address by; 0: not known."""
        known = self._of_site.get(site)
        if known is None:
            address = self._sites[site, s.SITE_RETURN]
            frame = RecordedFrame(address, self._module(address - 1))
            known = self._of_site[site] = frame, self._vptr(site)
        return known

    def _vptr(self, site: int) -> int:
        load, filetype = self._sites[site, s.SITE_LOAD], self.reader.state[c.FILETYPE]
        if not load or not filetype & k.HAS_ENCODINGS or not filetype & k.IS_X86_64:
            return 0
        if self._decoded is None:
            self._decoded = DecodeCache(Machine.X86_64)
        call = self._decoded.instruction(self.reader.codes, self._sites[site, s.SITE_CODE])
        slot = _SLOT.match(call.operands)
        if slot is None:
            return 0
        distance = int(slot[2] or "0", 0)
        return max(load + distance if slot[1] == "-" else load - distance, 0)

    def _module(self, address: int) -> RecordedModule | None:
        for module in self._modules:
            if module.start <= address < module.end or not module.end:
                return module
        return None


def _larger(table: memoryview, size: int, *widths: int) -> memoryview:
    larger = zeros(size, *widths)
    larger.cast("B")[: table.nbytes] = table.cast("B")
    return larger


def _refilled(places: memoryview, size: int) -> memoryview:
    larger = zeros(size, 2)
    refill(places, larger)
    return larger
