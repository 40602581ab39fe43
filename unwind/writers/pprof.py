"""Write resolved samples as a pprof profile: github.com/google/pprof, proto/profile.proto, compressed with gzip.

    one body at 0x1136, in two stacks     location 1  address 0x1136  line (List<Order>::grow(), list.h, 20)
                                          location 2  address 0x1136  line (List<Payment>::grow(), list.h, 20)

A location is an address and the function that it is in one stack; functions inlined in it are lines of the same
location, innermost first. `is_folded` says that a name may be any of several: it is set only where the frame is still
one of several. A function that a tail call left out has a location without an address.

`go tool pprof` shortens `List<Order>::grow()` to `List::grow` where a function's two names are equal, so
`system_name` is the linkage name, or nothing. It looks names up itself, and gets one for all merged functions, if a
mapping does not say that it has functions, files and lines: those with a frame that is named here say so.

What was read as pprof comes out as it was: samples one by one with their labels, comments, mappings, period, frames to
drop. A location is another only where its name is. A mapping of which no frame is merged keeps the names that it has.
Samples of other formats are added up if stack and labels are the same. The first mapping is the main program's, as
pprof expects: that of the process with the most samples. Addresses of calls are return addresses less one. The same
input has the same bytes as result.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple
from weakref import WeakKeyDictionary

from icf.errors import IcfError
from icf.model import Verdict
from unwind.readers.pprof import Origin
from unwind.readers.profile_proto import Line, Location, Profile, Sample
from unwind.resolve.resolved import AnsweredTree, Resolved, StackAnswers
from unwind.samples.recording import Label, RecordedFrame, RecordedModule, RecordedProcess, Recording
from unwind.symbolize.answer import Answer
from unwind.writers.named import NamedFrame, Namer

_PAGE_BYTES = 4096
_VALUE_BITS = 63
_COMPRESSION = 6
_KEPT_STACKS = 1 << 16


def open_writer(recording: Recording, namer: Namer) -> PprofWriter:
    """Return what writes samples of a recording for pprof."""
    return PprofWriter(recording, namer)


class _Frame(NamedTuple):
    """A frame in a stack, and its number among the locations of the profile that was read, or 0."""

    frame: RecordedFrame
    answer: Answer
    location_id: int


_Stack = tuple[int, ...]  # the numbers of its frames


class PprofWriter:
    """Collects samples, and writes them when all are there."""

    def __init__(self, recording: Recording, namer: Namer) -> None:
        self._recording, self._namer = recording, namer
        self._origin = recording.origin.profile if isinstance(recording.origin, Origin) else None
        self._read: list[tuple[_Stack, Sample]] = []  # from pprof
        self._sums: dict[tuple[int, tuple[Label, ...]], list[int]] = {}  # from other formats; by number of the stack
        self._sample_counts: dict[RecordedProcess, int] = {}  # of such samples
        self._times_ns: tuple[int, int] | None = None
        self._frames: dict[_Frame, int] = {}  # numbered in the order in which they come
        self._of_states: WeakKeyDictionary[AnsweredTree, list[int]] = WeakKeyDictionary()  # frames, by state
        self._stacks: list[_Stack] = []
        self._stack_numbers: dict[_Stack, int] = {}
        self._known: dict[StackAnswers, int] = {}  # stacks

    def write(self, resolved: Resolved) -> bytes:
        """Add a sample; nothing is written yet."""
        sample = resolved.sample
        if isinstance(sample.origin, Sample):
            self._read.append((self._stack_read(resolved, sample.origin), sample.origin))
            return b""
        number = self._known.get(resolved.answers)
        if number is None:
            if len(self._known) >= _KEPT_STACKS:
                self._known.clear()
            stack = self._stack(resolved)
            number = self._known[resolved.answers] = self._stack_numbers.setdefault(stack, len(self._stacks))
            if number == len(self._stacks):
                self._stacks.append(stack)
        self._sample_counts[sample.process] = self._sample_counts.get(sample.process, 0) + 1
        known = self._sums.get((number, sample.labels))
        if known is None:
            self._sums[number, sample.labels] = list(sample.weights)
        else:
            for idx, weight in enumerate(sample.weights):
                known[idx] += weight
        if sample.time_ns:
            low, high = self._times_ns or (sample.time_ns, sample.time_ns)
            self._times_ns = min(low, sample.time_ns), max(high, sample.time_ns)
        return b""

    def _stack_read(self, resolved: Resolved, message: Sample) -> _Stack:
        """Return a stack of the profile that was read."""
        frames = zip(resolved.sample.frames, resolved.answers, message.location_id, strict=True)
        return tuple([self._frame(*each) for each in frames])

    def _stack(self, resolved: Resolved) -> _Stack:
        tree = resolved.answers.tree
        if tree is None:
            frames = zip(resolved.sample.frames, resolved.answers, strict=True)
            return tuple([self._frame(*each) for each in frames])
        of_state = self._of_states.setdefault(tree, [])
        of_state += map(self._frame, tree.frames[len(of_state) :], tree.answers[len(of_state) :])
        return tree.along(resolved.answers.node, of_state)

    def _frame(self, frame: RecordedFrame, answer: Answer, location_id: int = 0) -> int:
        return self._frames.setdefault(_Frame(frame, answer, location_id), len(self._frames))

    def end(self) -> Iterator[bytes]:
        """Yield the file."""
        tables = _Tables(self._origin, self._namer, list(self._frames))
        if self._sample_counts:
            tables.begin_with(max(self._sample_counts, key=self._sample_counts.__getitem__))
        for stack, message in self._read:
            added = tables.profile.sample.add()
            added.CopyFrom(message)
            del added.location_id[:]
            added.location_id.extend(tables.locations(stack))
        for (number, labels), weights in self._sums.items():
            added = tables.profile.sample.add(
                location_id=tables.locations(self._stacks[number]), value=[_checked(weight) for weight in weights]
            )
            for key, value, unit in labels:
                label = added.label.add(key=tables.string(key), num_unit=tables.string(unit))
                if isinstance(value, str):
                    label.str = tables.string(value)
                else:
                    label.num = _checked(value)
        if self._origin is None:
            for name, unit in self._recording.values:
                tables.profile.sample_type.add(type=tables.string(name), unit=tables.string(unit))
            tables.profile.default_sample_type = tables.string(self._recording.values[self._recording.shown].name)
            if self._times_ns is not None:
                tables.profile.duration_nanos = _checked(self._times_ns[1] - self._times_ns[0])
        yield gzip.compress(tables.profile.SerializeToString(deterministic=True), _COMPRESSION, mtime=0)


class _Tables:
    """The profile that is written: its strings, functions, locations and mappings."""

    def __init__(self, origin: Profile | None, namer: Namer, frames: Sequence[_Frame]) -> None:
        self.profile = Profile()
        self._namer = namer
        if origin is not None:
            self.profile.CopyFrom(origin)
            del self.profile.location[:]
            del self.profile.function[:]
        if not self.profile.string_table:
            self.profile.string_table.append(b"")
        self._strings = {text: idx for idx, text in reversed(list(enumerate(self.profile.string_table)))}
        self._old_locations = {each.id: each for each in origin.location} if origin is not None else {}
        self._old_functions = {each.id: each for each in origin.function} if origin is not None else {}
        self._mappings = {each.id: each for each in self.profile.mapping}
        self._location_ids = (idx for idx in count(1) if idx not in self._old_locations)
        self._function_ids = (idx for idx in count(1) if idx not in self._old_functions)
        self._kept_locations: set[int] = set()
        self._kept_functions: set[int] = set()
        self._functions = {
            (each.name, each.system_name, each.filename): idx for idx, each in reversed(self._old_functions.items())
        }
        self._locations = {
            (each.address, each.mapping_id, each.is_folded, tuple([_row(line) for line in each.line])): idx
            for idx, each in reversed(self._old_locations.items())
        }
        self._modules: dict[RecordedModule, int] = {}
        self._frames = frames
        self._of_frame: list[tuple[int, ...] | None] = [None] * len(frames)
        self._merged_mappings = {
            self._old_locations[each.location_id].mapping_id
            for each in frames
            if each.location_id and len(each.answer.members) > 1
        }

    def begin_with(self, process: RecordedProcess) -> None:
        """Add the mapping of a process's program, which is the first of its modules."""
        if process.modules:
            self._mapping(process.modules[0])

    def string(self, text: str) -> int:
        """Return the number of a string."""
        encoded = text.encode("utf-8", "surrogateescape")
        idx = self._strings.get(encoded)
        if idx is None:
            idx = self._strings[encoded] = len(self.profile.string_table)
            self.profile.string_table.append(encoded)
        return idx

    def locations(self, stack: _Stack) -> list[int]:
        """Return the locations of a stack, innermost first."""
        found: list[int] = []
        for number in stack:
            known = self._of_frame[number]
            if known is None:
                known = self._of_frame[number] = self._frame_locations(self._frames[number])
            found += known
        return found

    def _frame_locations(self, frame: _Frame) -> tuple[int, ...]:
        old = self._old_locations.get(frame.location_id)
        if old is not None and not self._has_better_name(old, frame.answer):
            return (self._keep(old),)
        address, mapping_id = (old.address, old.mapping_id) if old is not None else self._place(frame)
        if mapping_id and frame.answer.verdict is not Verdict.UNKNOWN:
            mapping = self._mappings[mapping_id]
            mapping.has_functions = mapping.has_filenames = mapping.has_line_numbers = mapping.has_inline_frames = True
        ids: list[int] = []
        lines: list[NamedFrame] = []
        for named in self._namer.frame(frame.frame, frame.answer):
            lines.append(named)
            if not named.is_inlined:
                ids.append(self._location(0 if named.address is None else address, mapping_id, lines))
                lines = []
        return tuple(ids)

    def _has_better_name(self, old: Location, answer: Answer) -> bool:
        """Tell whether what is known of a frame is more than the profile has."""
        if answer.verdict is Verdict.UNKNOWN:
            return False
        return old.mapping_id in self._merged_mappings or not old.line

    def _keep(self, old: Location) -> int:
        """Take a location over as it was, with its functions."""
        if old.id not in self._kept_locations:
            self._kept_locations.add(old.id)
            self.profile.location.add().CopyFrom(old)
            for line in old.line:
                self._keep_function(line.function_id)
        return old.id

    def _keep_function(self, function_id: int) -> None:
        if function_id in self._old_functions and function_id not in self._kept_functions:
            self._kept_functions.add(function_id)
            self.profile.function.add().CopyFrom(self._old_functions[function_id])

    def _location(self, address: int, mapping_id: int, lines: list[NamedFrame]) -> int:
        """Return the location of an address and the function that it is there, with what is inlined in it."""
        is_folded = not all(line.is_settled for line in lines)
        rows = tuple([(self._function(line), line.line, line.column) for line in lines])
        key = address, mapping_id, is_folded, rows
        found = self._locations.get(key)
        if found is not None:
            return self._keep(self._old_locations[found]) if found in self._old_locations else found
        found = self._locations[key] = next(self._location_ids)
        added = self.profile.location.add(id=found, address=address, mapping_id=mapping_id, is_folded=is_folded)
        for row in rows:
            added.line.add(function_id=row[0], line=row[1], column=row[2])
        return found

    def _function(self, named: NamedFrame) -> int:
        system_name = named.linkage_name if named.linkage_name != named.name else ""
        key = self.string(named.name), self.string(system_name), self.string(named.file)
        found = self._functions.get(key)
        if found is None:
            found = self._functions[key] = next(self._function_ids)
            self.profile.function.add(id=found, name=key[0], system_name=key[1], filename=key[2])
        self._keep_function(found)
        return found

    def _place(self, frame: _Frame) -> tuple[int, int]:
        """Return the address of a frame, inside the call if it is a return address, and its mapping."""
        module, vaddr = frame.frame.module, frame.answer.vaddr
        address = frame.frame.address or 0
        if vaddr and module is not None and not module.start:
            address = vaddr  # pprof has no addresses that are offsets
        elif vaddr and (address - vaddr) % _PAGE_BYTES == 1:
            address -= 1
        return address, 0 if module is None else self._mapping(module)

    def _mapping(self, module: RecordedModule) -> int:
        found = self._modules.get(module)
        if found is None:
            found = self._modules[module] = len(self._modules) + 1
            added = self.profile.mapping.add(
                id=found, filename=self.string(module.path), build_id=self.string(module.build_id.hex())
            )
            added.memory_start, added.memory_limit = module.start, module.end
            added.file_offset = module.offset
            self._mappings[found] = added
        return found


def _row(line: Line) -> tuple[int, int, int]:
    return line.function_id, line.line, line.column


def _checked(value: int) -> int:
    if not -(1 << _VALUE_BITS) <= value < 1 << _VALUE_BITS:
        raise IcfError(f"pprof: {value} does not fit 64 bits", hint="write another format")
    return value
