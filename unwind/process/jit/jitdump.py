"""Jitdump, which compilers at run time write for `perf inject --jit`: code, lines, and moves of code.

    header  u32 magic "JiTD", version 1, size of the header, ELF machine, padding, pid; u64 time, flags
    record  u32 kind, size of the record; u64 time; contents
      0 LOAD    u32 pid, tid; u64 vma, code_addr, code_size, code_index; name with NUL; the code
      1 MOVE    u32 pid, tid; u64 vma, old_code_addr, new_code_addr, code_size, code_index
      2 DEBUG   u64 code_addr, entry count; entries: u64 address, u32 line, column, path with NUL (0xff NUL: as before)
                stands before the LOAD of its function
      3 CLOSE, 4 UNWINDING: not read

The byte order is that of the magic (tools/perf/Documentation/jitdump-specification.txt, version 2). CPython
(`-X perf_jit`), node (`--perf-prof`), Java and LLVM write `jit-PID.dump` and keep its first page mapped.

A record counts from its time on: where several cover an address, the last one is there. An entry of the lines holds
from its address to the next one. V8 adds the 0x40 bytes of an ELF header to all of them, since perf puts the code
after one: if no function of the file has a line before 0x40 and one has its first there, 0x40 is subtracted. V8
also writes paths that it has freed already: a function whose lines do not fit their record or its code has none.

The file grows while it is read: an incomplete record waits. A record that breaks the format ends the reading with
a `FormatError`; the records before it count.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from struct import error as ShortError
from typing import NamedTuple

from icf.errors import FormatError
from unwind.process.jit.code import JitCode
from unwind.process.jit.growing_file import GrowingFile
from unwind.process.jit.regions import Regions

_MAGIC, _VERSION = 0x4A695444, 1
_LOADED, _MOVED, _LINED = 0, 1, 2
_RECORD_BYTES = 16  # of its header
_MOST_BYTES = {_LOADED: 1 << 16, _MOVED: 64, _LINED: 64 << 20}  # read of a record; the code of a function is not
_GLANCE_BYTES = 1024
_SAME_PATH = b"\xff"
_ELF_HEADER_BYTES = 0x40
CLOCK_OF_CPU = 1  # in the header's flags: times are the processor's own counter
_ALIGNMENT_BYTES = 8  # to which some fill up records


class _Forms:
    """The fixed parts in one byte order."""

    def __init__(self, mark: str) -> None:
        self.header, self.record = Struct(f"{mark}6I2Q"), Struct(f"{mark}2IQ")
        self.load, self.move = Struct(f"{mark}2I4Q"), Struct(f"{mark}2I5Q")
        self.lines, self.line = Struct(f"{mark}2Q"), Struct(f"{mark}Q2I")


_FORMS = {_MAGIC.to_bytes(4, "little"): _Forms("<"), _MAGIC.to_bytes(4, "big"): _Forms(">")}


class _Lines(NamedTuple):
    """Where a function comes from, by offset in its code, ascending; one row or more."""

    offsets: array[int]
    lines: array[int]
    columns: array[int]
    paths: list[str]


class Function(NamedTuple):
    """A function, wherever it is."""

    name: str
    size_bytes: int
    lines: _Lines | None


class Step(NamedTuple):
    """From a time on a function lies at `start`, and no longer at `old_start`."""

    time: int
    function: Function
    start: int
    old_start: int | None


class JitDump:
    """The functions of one such file, as far as it was read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = GrowingFile()
        self._restart()

    def _restart(self) -> None:
        self._file.offset = 0
        self._regions: Regions[tuple[int, Function] | None] = Regions()
        self._functions: dict[int, Function] = {}  # by code_index
        self._lines_ahead: dict[int, _Lines] = {}  # of functions whose record has not come yet, by address
        self._forms: _Forms | None = None
        self.pid = self.flags = 0  # as its header has them
        self._time = 0
        self._least_offset = -1  # of all functions' first lines
        self._is_broken = False

    def find(self, address: int) -> JitCode | None:
        """Return the function that lies at the address now."""
        found = self._regions.find(address)
        if found is None:
            return None
        return self.code(*found, address)

    def code(self, start: int, function: Function, address: int) -> JitCode:
        """Return a function that lies at `start`, with its line at the address."""
        name, size_bytes, lines = function
        code = JitCode(name, start, size_bytes)
        if lines is None:
            return code
        added = _ELF_HEADER_BYTES if self._least_offset == _ELF_HEADER_BYTES else 0
        idx = bisect_right(lines.offsets, address - start + added) - 1
        if idx < 0:
            return code
        return code._replace(path=lines.paths[idx], line=lines.lines[idx], column=lines.columns[idx])

    def codes(self) -> Iterator[JitCode]:
        """Yield the functions that no later one covers from their start on."""
        found = (self.find(start) for start in self._regions.starts())
        yield from dict.fromkeys(code for code in found if code is not None)

    def history(self, fd: int) -> tuple[list[Step], FormatError | None]:
        """Return all steps in an open file by time, and the error that ended the reading before the end."""
        steps, problem = self._read_on(fd)
        return sorted(steps, key=lambda step: step.time), problem

    def read(self, fd: int) -> None:
        """Read the bytes added to the open file, or all of it if it was written anew.

        Raises `FormatError`, once, where the file breaks the format: nothing more is read of it then.
        """
        if not self._file.has_more(fd):
            return
        if self._file.was_replaced(fd):
            self._restart()
        if self._is_broken:
            return
        steps, problem = self._read_on(fd)
        if any(step.time < self._time for step in steps):  # threads that write have passed each other
            self._restart()
            steps, problem = self._read_on(fd)
        steps.sort(key=lambda step: step.time)
        regions: list[tuple[int, int, tuple[int, Function] | None]] = []
        for self._time, function, start, old_start in steps:
            if old_start is not None:
                regions.append((old_start, old_start + function.size_bytes, None))
            regions.append((start, start + function.size_bytes, (start, function)))
        self._regions.add(regions)
        if problem is not None:
            self._is_broken = True
            raise problem

    def _read_on(self, fd: int) -> tuple[list[Step], FormatError | None]:
        """Return the steps that were added, and the error that ended the reading before the end."""
        steps: list[Step] = []
        offset, end = self._file.offset, os.fstat(fd).st_size
        problem = None
        try:
            while end - offset >= _RECORD_BYTES:
                head = os.pread(fd, _GLANCE_BYTES, offset)
                if self._forms is None:
                    size_bytes = self._read_header(head)
                else:
                    size_bytes = self._read_record(fd, offset, end, head, steps)
                if not size_bytes:
                    break  # the rest is still to come
                offset += size_bytes
        except FormatError as error:
            problem = error
        except (ShortError, ValueError):  # a field, or the NUL of a text, is not inside of the record
            problem = FormatError(self.path, "jitdump", offset, "record ends inside of a field")
        self._file.go_on_from(fd, offset)
        return steps, problem

    def _read_header(self, head: bytes) -> int:
        """Return its size; 0 if it is not all there."""
        forms = _FORMS.get(head[:4])
        if forms is None:
            raise FormatError(
                self.path, "jitdump", 0, f"starts with {head[:4].hex()}, must start with 4a695444 or 4454694a"
            )
        if len(head) < forms.header.size:
            return 0
        _, version, size_bytes, _, _, self.pid, _, self.flags = forms.header.unpack_from(head)
        if version != _VERSION:
            raise FormatError(self.path, "jitdump", 4, f"version {version}, only {_VERSION} is known")
        if size_bytes < forms.header.size:
            raise FormatError(self.path, "jitdump", 8, f"header of {size_bytes} bytes, must be {forms.header.size}")
        self._forms = forms
        return int(size_bytes)

    def _read_record(self, fd: int, offset: int, end: int, head: bytes, steps: list[Step]) -> int:
        """Return the size of a record, which was read; 0 if it is not all there."""
        assert self._forms is not None
        kind, size_bytes, time = self._forms.record.unpack_from(head)
        if size_bytes < _RECORD_BYTES:
            raise FormatError(self.path, "jitdump", offset, f"record of {size_bytes} bytes")
        if size_bytes > end - offset:
            return 0
        most_bytes = _MOST_BYTES.get(kind, 0)
        if kind == _LINED and size_bytes > most_bytes:
            raise FormatError(self.path, "jitdump", offset, f"lines of {size_bytes} bytes, at most {most_bytes}")
        wanted = min(size_bytes, most_bytes)
        record = head[:wanted] if wanted <= len(head) else os.pread(fd, wanted, offset)
        if kind == _LOADED:
            self._load(record, time, offset, steps)
        elif kind == _MOVED:
            self._move(record, time, offset, steps)
        elif kind == _LINED:
            self._read_lines(record)
        return int(size_bytes)

    def _load(self, record: bytes, time: int, offset: int, steps: list[Step]) -> None:
        assert self._forms is not None
        _, _, _, start, size_bytes, index = self._forms.load.unpack_from(record, _RECORD_BYTES)
        name_at = _RECORD_BYTES + self._forms.load.size
        name = record[name_at : record.index(0, name_at)].decode("utf-8", "surrogateescape")
        self._check(offset, start, size_bytes)
        lines = self._lines_ahead.pop(start, None)
        if lines is not None and lines.offsets[-1] > size_bytes + _ELF_HEADER_BYTES:
            lines = None
        if lines is not None:
            first = lines.offsets[0]
            self._least_offset = first if self._least_offset < 0 else min(self._least_offset, first)
        function = self._functions[index] = Function(name, size_bytes, lines)
        steps.append(Step(time, function, start, None))

    def _move(self, record: bytes, time: int, offset: int, steps: list[Step]) -> None:
        assert self._forms is not None
        _, _, _, old_start, start, size_bytes, index = self._forms.move.unpack_from(record, _RECORD_BYTES)
        self._check(offset, start, size_bytes)
        function = self._functions.get(index)
        if function is not None and function.size_bytes == size_bytes:
            steps.append(Step(time, function, start, old_start))

    def _check(self, offset: int, start: int, size_bytes: int) -> None:
        if start + size_bytes > 1 << 64:
            raise FormatError(
                self.path, "jitdump", offset, f"{size_bytes} bytes at {start:#x} end beyond the address space"
            )

    def _read_lines(self, record: bytes) -> None:
        assert self._forms is not None
        start, count = self._forms.lines.unpack_from(record, _RECORD_BYTES)
        try:
            rows = self._rows(record, start, count)
        except (ShortError, ValueError):
            rows = []
        self._lines_ahead.pop(start, None)
        if rows:
            offsets, lines, columns, paths = zip(*rows, strict=True)
            self._lines_ahead[start] = _Lines(array("Q", offsets), array("I", lines), array("I", columns), list(paths))

    def _rows(self, record: bytes, start: int, count: int) -> list[tuple[int, int, int, str]]:
        """Return the lines by offset, ascending. Raise ValueError if the entries are not lines."""
        assert self._forms is not None
        at = _RECORD_BYTES + self._forms.lines.size
        rows: list[tuple[int, int, int, str]] = []
        path, known = "", dict[bytes, str]()
        for _ in range(count):
            address, line, column = self._forms.line.unpack_from(record, at)
            at += self._forms.line.size
            end = record.index(0, at)
            name = record[at:end]
            if name != _SAME_PATH:
                path = known.get(name) or known.setdefault(name, name.decode())
            if address < start or not path.isprintable():
                raise ValueError
            rows.append((address - start, line, column, path))
            at = end + 1
        if len(record) - at >= _ALIGNMENT_BYTES:
            raise ValueError
        rows.sort(key=lambda row: row[0])  # the last of those at one address counts
        return rows
