"""The events that were recorded: `perf_event_attr`, its ids, its name, and where its records hold what.

An attr has 64 bytes or more; newer kernels append fields, older ones lack them, which counts as 0:

    0 u32 type, u32 size | 8 u64 config, sample_period, sample_type, read_format, flags | 48 u32 wakeup, bp_type
    56 u64 config1, config2, branch_sample_type, sample_regs_user | 88 u32 sample_stack_user, s32 clockid
    96 u64 sample_regs_intr | ...

With several events the id in a record says whose it is: the first field of a sample and the last of other records
(IDENTIFIER), or a field whose place is the same for all events (ID).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from struct import Struct

import numpy as np

from icf.errors import FormatError
from icf.reader import Reader
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data.layout import (
    BRANCH_CALL_STACK,
    SAMPLE_ADDR,
    SAMPLE_BRANCH_STACK,
    SAMPLE_CALLCHAIN,
    SAMPLE_CPU,
    SAMPLE_ID,
    SAMPLE_IDENTIFIER,
    SAMPLE_IP,
    SAMPLE_KNOWN,
    SAMPLE_PERIOD,
    SAMPLE_RAW,
    SAMPLE_READ,
    SAMPLE_REGS_USER,
    SAMPLE_STACK_USER,
    SAMPLE_STREAM_ID,
    SAMPLE_TID,
    SAMPLE_TIME,
    U64,
)
from unwind.readers.perf_data.records import Layouts
from unwind.samples.recording import Value
from unwind.samples.sums import Weights

LEAST_BYTES, _MOST_BYTES = 64, 4096
_FIELDS = Struct("<II5Q2I4QIi Q".replace(" ", ""))
_FREQ, _SAMPLE_ID_ALL, _EXCLUDE_USER_CHAIN, _USE_CLOCKID = 1 << 10, 1 << 18, 1 << 22, 1 << 25
_CLOCK_MONOTONIC = 1
_NAMES = {
    (0, 0): "cycles",
    (0, 1): "instructions",
    (0, 2): "cache-references",
    (0, 3): "cache-misses",
    (0, 4): "branches",
    (0, 5): "branch-misses",
    (0, 6): "bus-cycles",
    (1, 0): "cpu-clock",
    (1, 1): "task-clock",
    (1, 2): "page-faults",
    (1, 3): "context-switches",
    (1, 4): "cpu-migrations",
    (1, 5): "minor-faults",
    (1, 6): "major-faults",
    (1, 9): "dummy",
    (1, 10): "bpf-output",
}
_CLOCKS = {(1, 0), (1, 1)}
_DUMMY = (1, 9)
# fields of fixed size that a sample begins with, 8 bytes each, in this order
_PREFIX = (
    SAMPLE_IDENTIFIER,
    SAMPLE_IP,
    SAMPLE_TID,
    SAMPLE_TIME,
    SAMPLE_ADDR,
    SAMPLE_ID,
    SAMPLE_STREAM_ID,
    SAMPLE_CPU,
    SAMPLE_PERIOD,
)
_WANTED = (SAMPLE_IP, SAMPLE_TID, SAMPLE_TIME, SAMPLE_CPU, SAMPLE_PERIOD)  # as `rows.IP_AT` and following
_SUFFIX = (SAMPLE_TID, SAMPLE_TIME, SAMPLE_ID, SAMPLE_STREAM_ID, SAMPLE_CPU, SAMPLE_IDENTIFIER)
NO_CPU = (1 << 32) - 1
_KEPT_WEIGHTS = 1 << 16


@dataclass(slots=True, eq=False)
class Attr:
    """An event as it was asked for."""

    size_bytes: int
    type: int
    config: int
    period: int  # between two samples; 0 if each sample says so
    sample_type: int
    read_format: int
    flags: int
    branch_sample_type: int
    regs_user: int
    regs_intr: int
    clock_id: int

    @property
    def is_monotonic(self) -> bool:
        """Whether times are those of CLOCK_MONOTONIC, which others can read (`perf record -k mono`)."""
        return bool(self.flags & _USE_CLOCKID) and self.clock_id == _CLOCK_MONOTONIC

    @property
    def excludes_user_chain(self) -> bool:
        """Whether call chains hold kernel frames alone: the user's are in registers and stack."""
        return bool(self.flags & _EXCLUDE_USER_CHAIN)

    @property
    def has_user_state(self) -> bool:
        """Whether the user's frames are not in the call chain, but in registers and stack."""
        has_chain = self.sample_type & SAMPLE_CALLCHAIN and not self.excludes_user_chain
        return bool(self.sample_type & SAMPLE_REGS_USER) and not has_chain

    @property
    def has_call_stack(self) -> bool:
        """Whether the branches of a sample are the calls that have not returned."""
        return bool(self.sample_type & SAMPLE_BRANCH_STACK and self.branch_sample_type & BRANCH_CALL_STACK)

    @property
    def has_branches_alone(self) -> bool:
        """Whether samples have the last branches, and nothing that shows their callers."""
        return self.sample_type & (SAMPLE_BRANCH_STACK | SAMPLE_CALLCHAIN | SAMPLE_REGS_USER) == SAMPLE_BRANCH_STACK


@dataclass(eq=False)
class Event:
    """An event: how its samples begin, and how its other records end."""

    attr: Attr
    index: int
    name: str = ""
    ids: list[int] = field(default_factory=list)
    zeros_before: tuple[int, ...] = ()
    zeros_after: tuple[int, ...] = ()
    known_weights: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by period: mostly the same

    @property
    def is_dummy(self) -> bool:
        """Whether it counts nothing."""
        return (self.attr.type, self.attr.config) == _DUMMY

    @property
    def unit(self) -> str:
        """What its period counts."""
        return "nanoseconds" if (self.attr.type, self.attr.config) in _CLOCKS else "count"

    @cached_property
    def has_plain_chain(self) -> bool:
        """Whether the call chain follows the fields of fixed size, and nothing else of a sample is needed."""
        wanted = self.attr.sample_type & (SAMPLE_READ | SAMPLE_CALLCHAIN)
        is_whole = not (self.attr.sample_type & SAMPLE_REGS_USER and self.attr.excludes_user_chain)
        return wanted == SAMPLE_CALLCHAIN and is_whole and not self.attr.has_call_stack

    @cached_property
    def is_plain(self) -> bool:
        """Whether the frames of its samples are those of the call chain, or the program counter alone."""
        attr = self.attr
        return self.has_plain_chain or not (attr.sample_type & (SAMPLE_CALLCHAIN | SAMPLE_REGS_USER))

    @cached_property
    def has_copied_stacks(self) -> bool:
        """Whether registers and stack stand for the program's part of the call chain, and follow the kernel's part."""
        others = SAMPLE_READ | SAMPLE_RAW | SAMPLE_BRANCH_STACK
        return self.attr.has_user_state and self.attr.sample_type & (others | SAMPLE_STACK_USER) == SAMPLE_STACK_USER

    def layout(self) -> list[int]:
        """Return where the fields of its samples are, as `rows` has layouts."""
        places, at = dict.fromkeys(_WANTED, r.NONE), 0
        for bit in _PREFIX:
            if self.attr.sample_type & bit:
                places[bit] = at
                at += U64.size
        period = 1 if self.attr.flags & _FREQ else self.attr.period
        size_bytes = at + U64.size * self.has_plain_chain
        return [size_bytes, *[places[bit] for bit in _WANTED], period, int(self.has_plain_chain)]

    def weights(self, period: int) -> tuple[int, ...]:
        """Return the weights of a sample, for the values that `Events.values` lists."""
        if len(self.known_weights) >= _KEPT_WEIGHTS:
            self.known_weights.clear()
        weights = self.known_weights[period] = (*self.zeros_before, 1, period, *self.zeros_after)
        return weights

    def weights_of(self, counts: Weights, periods: Weights) -> list[Weights]:
        """Return the weights of so many samples with periods of this sum, for the values that `Events.values` lists."""
        zeros = np.zeros_like(counts)
        return [*(zeros for _ in self.zeros_before), counts, periods, *(zeros for _ in self.zeros_after)]

    def from_end(self, bit: int) -> int:
        """Return how many bytes before the end of a record other than a sample this field is; 0 if it is not there."""
        if not self.attr.flags & _SAMPLE_ID_ALL or not self.attr.sample_type & bit:
            return 0
        return 8 * sum(bool(self.attr.sample_type & each) for each in _SUFFIX[_SUFFIX.index(bit) :])

    @cached_property
    def id_at(self) -> int:
        """Where the id is in a sample; -1 if it has none."""
        if self.attr.sample_type & SAMPLE_IDENTIFIER:
            return 0
        if not self.attr.sample_type & SAMPLE_ID:
            return -1
        before = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_ADDR
        return 8 * (self.attr.sample_type & before).bit_count()


def parse_attr(data: bytes | memoryview, path: str, section: str, offset: int) -> Attr:
    """Return the attr that begins here; `FormatError` for one that holds what is not known."""
    size_bytes = int.from_bytes(data[4:8], "little") or LEAST_BYTES
    if not LEAST_BYTES <= size_bytes <= _MOST_BYTES or size_bytes > len(data):
        raise FormatError(path, section, offset, f"attr of {size_bytes} bytes, there are {len(data)}")
    known = bytes(data[:size_bytes])[: _FIELDS.size].ljust(_FIELDS.size, b"\0")
    kind, _, config, period, sample_type, read_format, flags, *rest = _FIELDS.unpack(known)
    _, _, _, _, branch_sample_type, regs_user, _, clock_id, regs_intr = rest
    if sample_type & ~SAMPLE_KNOWN:
        raise FormatError(
            path, section, offset, f"sample_type {sample_type:#x}, only the bits of {SAMPLE_KNOWN:#x} are known"
        )
    if flags & _FREQ:
        period = 0
    return Attr(
        size_bytes,
        kind,
        config,
        period,
        sample_type,
        read_format,
        flags,
        branch_sample_type,
        regs_user,
        regs_intr,
        clock_id,
    )


class Events:
    """All events of a recording."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self._by_id: dict[int, Event] = {}
        self._id_at = self._id_from_end = -1

    def add(self, attr: Attr, ids: Iterable[int]) -> None:
        """Add an event with its ids."""
        event = Event(attr, len(self.all), _NAMES.get((attr.type, attr.config), f"event {len(self.all) + 1}"))
        event.ids += ids
        self.all.append(event)
        self._by_id.update((each, event) for each in event.ids)
        places = {each.id_at for each in self.all}
        self._id_at = places.pop() if len(places) == 1 else -1

    def name(self, ids: Iterable[int], name: str) -> None:
        """Give the event with these ids its name."""
        for each in ids:
            if each in self._by_id and name:
                self._by_id[each].name = name

    def values(self) -> tuple[Value, ...]:
        """Return what the weights of samples count: for each event how many samples, and the sum of their periods.

        A dummy event, which perf adds for the other records of a whole system, has no samples.
        """
        sampled = [event for event in self.all if not event.is_dummy] or self.all
        for event in self.all:
            at = min(sum(each.index < event.index for each in sampled), len(sampled) - 1)
            event.zeros_before, event.zeros_after = (0, 0) * at, (0, 0) * (len(sampled) - 1 - at)
        if len(sampled) == 1:
            return Value(), Value(sampled[0].name, sampled[0].unit)
        each = ((Value(f"{event.name} samples"), Value(event.name, event.unit)) for event in sampled)
        return tuple(value for pair in each for value in pair)

    def layouts(self) -> Layouts:
        """Return how samples begin, and which event is theirs."""
        layouts = np.array([event.layout() for event in self.all], np.uint64)
        if len(self.all) == 1:
            return Layouts(np.zeros((0, 2), np.uint64), layouts, r.NONE)
        numbers = sorted((number, event.index) for number, event in self._by_id.items())
        events = np.array(numbers or [(0, r.NONE)], np.uint64)
        return Layouts(events, layouts, self._id_at if self._id_at >= 0 else r.NONE)

    def of_other(self, buffer: bytes, at: int, end: int) -> Event | None:
        """Return an event whose records end like this one."""
        first = self.all[0] if self.all else None
        if len(self.all) > 1 and first is not None and first.from_end(SAMPLE_IDENTIFIER) and end - at >= U64.size:
            return self._by_id.get(U64.unpack_from(buffer, end - U64.size)[0], first)
        return first

    def time_of(self, buffer: bytes, at: int, end: int) -> int:
        """Return the time of a record other than a sample; 0 if it has none."""
        event = self.of_other(buffer, at, end)
        before = event.from_end(SAMPLE_TIME) if event is not None else 0
        return U64.unpack_from(buffer, end - before)[0] if 0 < before <= end - at else 0


def read_names(reader: Reader, events: Events) -> None:
    """Read HEADER_EVENT_DESC: the names of events by their ids."""
    count, attr_bytes = reader.u32(), reader.u32()
    for _ in range(count):
        reader.take(attr_bytes)
        id_count = reader.u32()
        name = read_string(reader)
        events.name([reader.u64() for _ in range(id_count)], name)


def read_string(reader: Reader) -> str:
    """Read a string of the header: its size with padding, then its bytes."""
    return bytes(reader.take(reader.u32())).partition(b"\0")[0].decode("utf-8", "replace")
