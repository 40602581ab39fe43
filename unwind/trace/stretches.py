"""The stretches of the file of a core: what one thread ran there without a switch, with where it began and went on.

    core 0   thread 5  0x401000 .. 0x401136   thread 6  0x402010 .. 0x402044   thread 5  0x401300 ..
    core 1   thread 7  0x403000 .. 0x403010   thread 5  0x401139 .. 0x4012ff

A thread goes on where it was: after the instruction at 0x401136, which has 3 bytes, at 0x401139.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace import stretch_columns as t
from unwind.trace._stretches import next_stretch
from unwind.trace.decode import DecodeCache, code_bytes, machine_of
from unwind.trace.reader import TraceReader, zeros

WANTED = c.KEEP_INSTRUCTIONS | c.KEEP_DATA | c.KEEP_MARKERS
_OF_FILE = t.TID, t.PID, t.IS_IDLE, t.CPU, t.HAS_SEVERAL_CPUS
_RELATIVE = k.DIRECT_JUMP, k.DIRECT_CALL, k.TAKEN_JUMP
_ABSOLUTE = k.INDIRECT_JUMP, k.INDIRECT_CALL, k.RETURN
_NEXT = k.INSTRUCTION, k.UNTAKEN_JUMP


class Left(NamedTuple):
    """A frame that a stretch began with and has returned from."""

    address: int  # to which it returned
    slot: int  # where that stood on the stack; 0: not known


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one thread ran on a core without a switch."""

    number: int  # in the file
    thread: tuple[int, int]  # pid, tid
    first: int | None  # address of its first instruction; None: not known
    following: tuple[int, ...]  # addresses at which the thread may go on; none: they are not known
    first_time: int  # 0: it has no time
    last_time: int
    is_last: bool  # the thread has ended
    is_level: bool  # it has left the stack as it was, if that had on top what it has left
    left: tuple[Left, ...] = ()  # what it returned from, the innermost first, and called again


class Splitter:
    """Splits the rows of a file into stretches; the same ones, whichever other rows are there."""

    def __init__(self) -> None:
        self.state = zeros(t.STATE_WIDTH)
        self.number = 0

    @property
    def thread(self) -> tuple[int, int]:
        """The process and the thread of this stretch."""
        return self.state[t.PID], self.state[t.TID]

    def pieces(self, reader: TraceReader) -> Iterator[tuple[memoryview, bool]]:
        """Yield rows of one stretch each, and whether it ends with them; `number` is that of the stretch."""
        for rows in reader.rows():
            start = 0
            while start < len(rows):
                end = next_stretch(rows, start, self.state)
                is_whole = end < len(rows)
                yield rows[start:end], is_whole
                start = end
                if is_whole:
                    self._begin()

    def _begin(self) -> None:
        for each in range(t.STATE_WIDTH):
            if each not in _OF_FILE:
                self.state[each] = 0
        self.number += 1


def find_stretches(reader: TraceReader) -> tuple[list[Stretch], bool]:
    """Read a file; return its stretches that have instructions, and whether the core has markers of several processors.

    Those are of the machine on which the threads were recorded; so are the times then.
    """
    splitter = Splitter()
    found: list[Stretch] = []
    followers = _Followers(reader)
    for _, is_whole in splitter.pieces(reader):
        if is_whole:
            followers.add(splitter, found)
    followers.add(splitter, found)
    return found, splitter.state[t.HAS_SEVERAL_CPUS] != 0


class _Followers:
    """Makes stretches of what a splitter has found; it finds where their threads go on."""

    def __init__(self, reader: TraceReader) -> None:
        self._reader = reader
        self._decoded: DecodeCache | None = None

    def add(self, splitter: Splitter, found: list[Stretch]) -> None:
        """Add the stretch that has ended, if anything ran in it."""
        state = splitter.state
        if state[t.FIRST] == t.NO_PLACE:
            return
        first = state[t.FIRST_ADDRESS] if state[t.FIRST] == t.KNOWN_PLACE else None
        following = self._following(state) if state[t.LAST] == t.KNOWN_PLACE else ()
        times, is_last = (state[t.FIRST_TIME], state[t.LAST_TIME]), state[t.HAS_EXIT] != 0
        is_level = _is_level(state)
        left = tuple(_calls(state, t.FIRST_LEFT, t.FIRST_LEFT_SLOT, state[t.LEFT])) if is_level else ()
        found.append(Stretch(splitter.number, splitter.thread, first, following, *times, is_last, is_level, left))

    def _following(self, state: memoryview) -> tuple[int, ...]:
        """Return where the instruction after the last one of a stretch can be."""
        what = state[t.LAST_WHAT]
        kind, size = what & c.TYPE_MASK, what >> c.SIZE_SHIFT & 0xFFFF
        address, target = state[t.LAST_ADDRESS], state[t.LAST_TARGET]
        if kind == k.NO_FETCH or (kind == k.INSTRUCTION and state[t.WAS_CALL_OF_SYSTEM]):
            return address, address + size
        if kind in _NEXT:
            return (address + size,)
        if kind in _ABSOLUTE:
            return (target,) if target else ()
        return self._target(what >> c.CODE_SHIFT) if kind in _RELATIVE else ()

    def _target(self, code: int) -> tuple[int, ...]:
        """Return where a direct branch leads; nothing if the trace does not have its bytes."""
        reader = self._reader
        filetype = reader.state[c.FILETYPE]
        if not any(code_bytes(reader.codes, code)) or filetype & k.IS_REGDEPS:
            return ()
        if self._decoded is None:
            self._decoded = DecodeCache(machine_of(filetype, reader.file.path))
        operand = self._decoded.instruction(reader.codes, code).operands.rpartition(",")[2].strip(" #")
        return (int(operand, 16),) if operand.startswith("0x") else ()


def _is_level(state: memoryview) -> bool:
    """Return whether a stretch has left the stack as it was.

    Calls through pointers do not count: one function may have returned, and another one been called there.
    """
    count = state[t.OPEN]
    if state[t.IS_UNEVEN] or count != state[t.LEFT]:
        return False
    opened = reversed(_calls(state, t.FIRST_OPEN, t.FIRST_OPEN_SLOT, count))
    left = _calls(state, t.FIRST_LEFT, t.FIRST_LEFT_SLOT, count)
    pairs = zip(opened, left, strict=True)
    return all(one.address == other.address and same_slot(one.slot, other.slot) for one, other in pairs)


def same_slot(one: int, other: int) -> bool:
    """Return whether two places of a return address may be the same; 0: it is not known."""
    return not one or not other or one == other


def _calls(state: memoryview, first: int, first_slot: int, count: int) -> list[Left]:
    return [Left(state[first + row], state[first_slot + row]) for row in range(count)]
