"""Read pprof's profiles: the messages of `profile_proto`, compressed with gzip or not.

    sample     location_id 1 2 3   value 10 4096   label thread=7
    location 1 address 0x55d0a1136  mapping 1  line (function 4, line 12), (function 9, line 80)
    mapping 1  memory_start 0x55d0a0000  memory_limit ..  file_offset 0  filename, build id

The first location of a sample is the innermost. Addresses are those of the process; all but the first are return
addresses less one, so that each lies in its call. The first is a program counter, but in profiles of allocations and
of locks it is a return address as well. A mapping that starts at 0 holds no process's addresses: there they are as
linked. Where mappings overlap, several processes are in one profile, and an address counts by its offset in the file.

A location with several lines has inlined functions: the innermost stands first, the function that has the code last.
Such names are what another tool found; `is_folded` says that one may be any of several, which linkers make of merged
functions. They are kept as what the recording says.

The fields of the whole are walked here, and the library reads them one by one: so a message for each sample never
exists at the same time, and an error has its place. Strings of a few bytes can stand for large objects, so what a
profile may hold is bounded by counts.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from google.protobuf.message import DecodeError

from icf.errors import FormatError
from unwind.readers.gzipped import inflate_content, inflate_head
from unwind.readers.profile_fields import VARINT_LIMIT_BYTES, fields
from unwind.readers.profile_proto import Line, Profile
from unwind.readers.profile_proto import Mapping as MappingMessage
from unwind.readers.profile_proto import Sample as SampleMessage
from unwind.readers.source import Source
from unwind.samples.recording import (
    Base,
    Inlined,
    Label,
    Losses,
    RecordedFrame,
    RecordedModule,
    RecordedProcess,
    Recording,
    Sample,
    Value,
)

_SAMPLE = 2  # numbers of fields
_TYPES, _TYPE_TAGS = frozenset((1, 11)), b"\x08\x10"
_TABLE_LIMIT = 1 << 24  # entries in tables, and lines of locations
_LINE_TAG = b"\x22"
_SAMPLE_LIMIT_BYTES = 1 << 20
_KEPT_STACKS = 1 << 16
_HEX = re.compile(r"(?:[0-9a-f]{2})+")
_DELETED = " (deleted)"
_KERNEL = "[kernel", "[guest.kernel", "[vmlinux"
_IN_USE = "inuse_space"
_CALLED = re.compile(r"(?:inuse|alloc|free).*|objects|space|contentions|delay")
"""Values of profiles that are taken in functions that the program calls."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What was read: the whole but for its samples, each of which is the `origin` of its own."""

    profile: Profile


def recognizes(head: bytes) -> bool:
    """Return whether the bytes can be the first fields of a profile."""
    head = inflate_head(head)
    seen = 0
    try:
        for field in fields(memoryview(head), ""):
            if not field.is_of_profile:
                return False
            if field.end > len(head):
                break
            if field.number in _TYPES and field.start < field.end and head[field.start] not in _TYPE_TAGS:
                return False
            seen += 1
    except FormatError as error:
        return seen > 0 and len(head) - error.offset < VARINT_LIMIT_BYTES
    return seen > 0


def read(source: Source) -> Recording:
    """Read a profile; raises `FormatError` for what breaks the format, `IcfError` for what inflates to too much."""
    reading = _Reading(inflate_content(source.content()), source.path)
    profile = reading.profile
    values = tuple([Value(reading.string(each.type), reading.string(each.unit)) for each in profile.sample_type])
    shown = _shown([value.name for value in values], reading.string(profile.default_sample_type))
    return Recording("pprof", reading.samples(values), values, Losses.FRAME_POINTERS, Origin(profile), shown)


def _shown(names: list[str], default: str) -> int:
    """Return the index of the value that pprof would show: the default of the profile, a heap's in use, the last."""
    return next((names.index(name) for name in (default, _IN_USE) if name in names), -1)


class _Reading:
    """The tables of a profile, and where its samples are."""

    def __init__(self, data: memoryview, path: str) -> None:
        self._data, self._path = data, path
        self._starts, self._ends = array("Q"), array("Q")  # of samples
        self.profile = self._tables()
        self._strings = [each.decode("utf-8", "surrogateescape") for each in self.profile.string_table]
        self._locations = {each.id: each for each in self.profile.location}
        self._functions = {each.id: each for each in self.profile.function}
        for what, table, entries in (
            ("locations", self._locations, self.profile.location),
            ("functions", self._functions, self.profile.function),
        ):
            if 0 in table or len(table) != len(entries):
                raise self._error(f"{what} must have ids, each another one, and none of them 0")
        self._mappings = self._all_mappings()
        self._process = RecordedProcess(
            modules=list(dict.fromkeys(each.module for each in self._mappings.values() if each.module is not None))
        )

    def _error(self, problem: str, at: int = 0) -> FormatError:
        return FormatError(self._path, "profile", at, problem)

    def _tables(self) -> Profile:
        """Return the profile without its samples."""
        tables = bytearray()
        entry_count = 0
        for field in fields(self._data, self._path):
            if not field.is_of_profile:
                raise self._error(f"field {field.number} of kind {field.kind} does not belong to a profile", field.at)
            if field.end > len(self._data):
                raise self._error(
                    f"field {field.number} has no end: it needs {field.end - field.start} bytes", field.at
                )
            if field.number != _SAMPLE:
                tables += self._data[field.at : field.end]
                entry_count += 1
            elif field.end - field.start > _SAMPLE_LIMIT_BYTES:
                raise self._error(f"sample has more than {_SAMPLE_LIMIT_BYTES} bytes", field.at)
            else:
                self._starts.append(field.start)
                self._ends.append(field.end)
        # a line is of two bytes or more, and takes 40 when it is read
        if entry_count > _TABLE_LIMIT or tables.count(_LINE_TAG) > _TABLE_LIMIT:
            raise self._error(f"has more than {_TABLE_LIMIT} locations, functions, lines and strings")
        try:
            return Profile.FromString(bytes(tables))
        except DecodeError as error:
            raise self._error(f"cannot be decoded: {error}") from None

    def string(self, idx: int) -> str:
        """Return a string of the table."""
        if not 0 <= idx < max(len(self._strings), 1):
            raise self._error(f"string {idx}: there are {len(self._strings)}")
        return self._strings[idx] if self._strings else ""

    def _all_mappings(self) -> dict[int, _Mapping]:
        ranges = sorted((each.memory_start, each.memory_limit) for each in self.profile.mapping if each.memory_start)
        is_of_one = all(end <= start for (_, end), (start, _) in pairwise(ranges))
        mappings: dict[int, _Mapping] = {}
        for each in self.profile.mapping:
            if each.id == 0 or each.id in mappings:
                raise self._error(f"mapping has the id {each.id}, must have one of its own that is not 0")
            mappings[each.id] = _mapping(each, self.string(each.filename), self.string(each.build_id), is_of_one)
        return mappings

    def samples(self, values: tuple[Value, ...]) -> Iterator[Sample]:
        """Yield the samples."""
        is_called = any(_CALLED.fullmatch(each.name) for each in values)
        frames: dict[int, RecordedFrame] = {}
        stacks: dict[tuple[int, ...], tuple[RecordedFrame, ...]] = {}
        labels: dict[tuple[int, int, int, int], Label] = {}
        for start, end in zip(self._starts, self._ends, strict=True):
            try:
                message = SampleMessage.FromString(bytes(self._data[start:end]))
            except DecodeError as error:
                raise self._error(f"sample cannot be decoded: {error}", start) from None
            weights = tuple(message.value)
            if not weights or len(weights) != len(values):
                raise self._error(f"sample has {len(weights)} values, the profile {len(values)} of one or more", start)
            ids = tuple(message.location_id)
            stack = stacks.get(ids)
            if stack is None:
                if len(stacks) >= _KEPT_STACKS:
                    stacks.clear()
                for location_id in ids:
                    if location_id not in frames:
                        frames[location_id] = self._frame(location_id, start)
                stack = stacks[ids] = tuple([frames[location_id] for location_id in ids])
            of_sample: list[Label] = []
            for each in message.label:
                key = each.key, each.str, each.num, each.num_unit
                if key not in labels:
                    text: str | int = self.string(each.str) if each.str else each.num
                    labels[key] = Label(self.string(each.key), text, self.string(each.num_unit))
                of_sample.append(labels[key])
            yield Sample(stack, self._process, weights, tuple(of_sample), is_called=is_called, origin=message)

    def _frame(self, location_id: int, at: int) -> RecordedFrame:
        location = self._locations.get(location_id)
        if location is None:
            raise self._error(f"sample has location {location_id}, which the profile has not", at)
        mapping = self._mappings.get(location.mapping_id, _NO_MAPPING)
        if location.mapping_id and mapping is _NO_MAPPING:
            raise self._error(f"location {location.id}: there is no mapping {location.mapping_id}")
        *inlined, own = [self._line(line) for line in location.line] or [Inlined("")]
        address = location.address if mapping.holds(location.address) else None
        return RecordedFrame(
            None if address is None else address - mapping.less,
            mapping.module if address is not None else None,
            own.name,
            own.file,
            own.line,
            inlined=tuple(inlined),
            is_certain=mapping.is_kernel,
        )

    def _line(self, line: Line) -> Inlined:
        function = self._functions.get(line.function_id)
        if function is None:
            if line.function_id:
                raise self._error(f"line of a location: there is no function {line.function_id}")
            return Inlined("", "", line.line)
        name = self.string(function.name) or self.string(function.system_name)
        return Inlined(name, self.string(function.filename), line.line)


class _Mapping(NamedTuple):
    module: RecordedModule | None = None
    start: int = 0
    limit: int = 0  # 0: not known
    less: int = 0  # an address is what it is in the module, and this
    is_kernel: bool = False

    def holds(self, address: int) -> bool:
        """Tell whether an address lies in it; 0 is the address of what has none."""
        return self.start <= address != 0 and (not self.limit or address < self.limit)


_NO_MAPPING = _Mapping()


def _mapping(mapping: MappingMessage, path: str, build_id: str, is_of_one: bool) -> _Mapping:
    """Return what a mapping means; addresses are those of one process if `is_of_one`."""
    start, limit = mapping.memory_start, mapping.memory_limit
    if path.startswith("["):
        return _Mapping(None, start, limit, is_kernel=path.startswith(_KERNEL))
    if not path and not build_id:
        return _NO_MAPPING
    path = path.removesuffix(_DELETED)
    identity = bytes.fromhex(build_id) if _HEX.fullmatch(build_id) else b""
    if not start:
        return _Mapping(RecordedModule(path, identity))
    if is_of_one:
        return _Mapping(RecordedModule(path, identity, Base.RUN_TIME, start, limit, mapping.file_offset), start, limit)
    return _Mapping(RecordedModule(path, identity, Base.OFFSET), start, limit, start - mapping.file_offset)
