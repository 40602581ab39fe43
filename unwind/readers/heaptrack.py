"""Read what heaptrack records with `--raw`: every allocation, its stack, and where modules lay.

    v 10400 3                                  version of heaptrack, and of the format; numbers are hexadecimal
    x 13 /usr/bin/shop                         the program; in front of a text stands how many bytes it has
    m 1 -                                      the list of modules begins anew
    m 1 x 56159fbe7000 0 7a4 17b0 280          the program: what was added to its addresses; address and size of each
    m 1f /usr/lib/libc.so.6 7f3fd721e000 0 25388 26000 1550fc             segment that is loaded
    t 56159fbe87d0 0                           a frame, and the number of the one that called it; 0: none
    t 56159fbe88ae 1                           frame 2, called by frame 1
    + 64 2 5615bcb6f1d0                        allocated: bytes, frame, where
    - 5615bcb6f1d0                             freed
    X, I, c, R, A, S, #                        command, system, time, memory, attached, suppression, comment

Addresses are return addresses less one, of the first frame too: it called the allocator. `heaptrack` without `--raw`
writes names in place of modules, of functions as they are in debug information: that is refused. Source: heaptrack,
src/track/libheaptrack.cpp, src/interpret/heaptrack_interpret.cpp.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from unwind.readers.packed_lines import unpacked_head, unpacked_lines
from unwind.readers.source import LineError, Source
from unwind.samples.recording import Losses, RecordedFrame, RecordedModule, RecordedProcess, Recording, Sample, Value

_VERSION = re.compile(rb"v ([0-9a-f]{1,8}) ([0-9a-f]{1,8})")
_FORMAT = 3
_MODULE = re.compile(rb"m ([0-9a-f]{1,4}) ")
_PLACES = re.compile(rb" [0-9a-f]{1,16}(?: [0-9a-f]{1,16} [0-9a-f]{1,16})*")
_PATH = re.compile(rb"x ([0-9a-f]{1,4}) (.*)")
_FRAME = re.compile(rb"t ([0-9a-f]{1,16}) ([0-9a-f]{1,8})")
_ALLOCATED = re.compile(rb"\+ ([0-9a-f]{1,16}) ([0-9a-f]{1,8}) ([0-9a-f]{1,16})")
_FREED = re.compile(rb"- ([0-9a-f]{1,16})")
_PASSED_OVER = b"XIcRAS#"
_NAMED = b"sia"
_PROGRAM, _ANEW = b"x", b"-"
_ADDRESSES = 1 << 64
_MODULES = 1 << 14
_VALUES = (
    Value("alloc_objects", "count"),
    Value("alloc_space", "bytes"),
    Value("inuse_objects", "count"),
    Value("inuse_space", "bytes"),
)


class _Loaded(NamedTuple):
    """A segment of a module; `start` and `end` are run-time addresses."""

    start: int
    end: int
    bias: int
    module: RecordedModule


def recognizes(head: bytes) -> bool:
    """Return whether a file with these first bytes was written by heaptrack."""
    return _VERSION.match(unpacked_head(head)) is not None


def read(source: Source) -> Recording:
    """Read the allocations of a process; raises `FormatError` for a line that heaptrack would not write."""
    return Recording("heaptrack", _samples(source), _VALUES, Losses.NONE)


def _samples(source: Source) -> Iterator[Sample]:
    yield from _Process(source).samples()


class _Process:
    """What the lines read so far have on a process."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._number = 0
        self._program = b""
        self._loaded: list[_Loaded] = []
        self._is_sorted = True
        self._modules: dict[RecordedModule, None] = {}  # of all lists
        self._known: dict[int, RecordedFrame] = {}  # by address, in the modules of now
        self._frames: list[RecordedFrame] = []
        self._callers: list[int] = []  # of each frame, its number
        self._sums: dict[int, list[int]] = {}  # of each frame that allocated: objects, bytes, those of them in use
        self._live: dict[int, tuple[list[int], int]] = {}  # by address: whose, and how many bytes

    def samples(self) -> Iterator[Sample]:
        """Yield a sample for each stack that has allocated."""
        for line in unpacked_lines(self._source.content()):
            self._number += 1
            if line.endswith(b"\n"):  # else it was cut off
                self._take(line[:-1])
        process = RecordedProcess(modules=list(self._modules), is_whole=bool(self._modules))
        for number, sums in self._sums.items():
            yield Sample(self._stack(number), process, tuple(sums), is_called=True)

    def _take(self, line: bytes) -> None:
        kind = line[:1]
        if self._number == 1:
            self._check_version(line)
        elif kind == b"+":
            self._allocate(line)
        elif kind == b"-":
            found = _FREED.fullmatch(line) or self._refuse(line, "`- address`")
            freed = self._live.pop(int(found[1], 16), None)
            if freed is not None:
                freed[0][2] -= 1
                freed[0][3] -= freed[1]
        elif kind == b"t":
            self._add_frame(line)
        elif kind == b"m":
            self._load(line)
        elif kind == b"x":
            found = _PATH.fullmatch(line) or self._refuse(line, "`x size path`")
            self._program = self._text(line, found.start(2), int(found[1], 16))
        elif kind and kind in _NAMED:
            problem = "the recording has names in place of modules: nothing says where those lay"
            raise LineError(
                self._source.path, "line", self._number, problem, hint="heaptrack --raw PROGRAM keeps the modules"
            )
        elif line and kind not in _PASSED_OVER:
            self._refuse(line, "a line of heaptrack")

    def _check_version(self, line: bytes) -> None:
        found = _VERSION.fullmatch(line) or self._refuse(line, "`v version format`")
        version = int(found[2], 16)
        if version != _FORMAT:
            raise LineError(self._source.path, "line", 1, f"version {version} of the format, can read {_FORMAT}")

    def _load(self, line: bytes) -> None:
        found = _MODULE.match(line) or self._refuse(line, "`m size path start [address size]..`")
        path = self._text(line, found.end(), int(found[1], 16))
        self._known.clear()
        rest = line[found.end() + len(path) :]
        if path == _ANEW and not rest:
            self._loaded.clear()
            return
        if not _PLACES.fullmatch(rest) or len(self._loaded) >= _MODULES:
            self._refuse(line, "`m size path start [address size]..`")
        bias, *places = [int(each, 16) for each in rest.split()]
        path = self._program if path == _PROGRAM else path
        if not path.startswith(b"/"):  # linux-vdso.so.1
            return
        module = RecordedModule(path.decode("utf-8", "surrogateescape"))
        for vaddr, size_bytes in zip(places[::2], places[1::2], strict=True):
            start = (bias + vaddr) % _ADDRESSES
            self._loaded.append(_Loaded(start, start + size_bytes, bias, module))
        self._is_sorted = False
        self._modules[module] = None

    def _add_frame(self, line: bytes) -> None:
        found = _FRAME.fullmatch(line) or self._refuse(line, "`t address caller`")
        caller = int(found[2], 16)
        if caller > len(self._frames):
            problem = f"caller {caller:#x}, there are {len(self._frames):#x} frames before it"
            raise LineError(self._source.path, "line", self._number, problem)
        address = int(found[1], 16)
        frame = self._known.get(address)
        if frame is None:
            frame = self._known[address] = self._frame(address)
        self._frames.append(frame)
        self._callers.append(caller)

    def _frame(self, address: int) -> RecordedFrame:
        if not self._is_sorted:
            self._loaded.sort(key=attrgetter("start"))
            self._is_sorted = True
        at = bisect_right(self._loaded, address, key=attrgetter("start")) - 1
        if at < 0 or address >= self._loaded[at].end:
            return RecordedFrame(address, None, in_call=True)
        return RecordedFrame((address - self._loaded[at].bias) % _ADDRESSES, self._loaded[at].module, in_call=True)

    def _allocate(self, line: bytes) -> None:
        found = _ALLOCATED.fullmatch(line) or self._refuse(line, "`+ bytes frame address`")
        size_bytes, number, address = int(found[1], 16), int(found[2], 16), int(found[3], 16)
        if number > len(self._frames):
            problem = f"frame {number:#x}, there are {len(self._frames):#x}"
            raise LineError(self._source.path, "line", self._number, problem)
        if number == 0:  # heaptrack knew no stack
            return
        sums = self._sums.setdefault(number, [0, 0, 0, 0])
        sums[0] += 1
        sums[1] += size_bytes
        sums[2] += 1
        sums[3] += size_bytes
        self._live[address] = sums, size_bytes

    def _stack(self, number: int) -> tuple[RecordedFrame, ...]:
        stack: list[RecordedFrame] = []
        while number:
            stack.append(self._frames[number - 1])
            number = self._callers[number - 1]
        return tuple(stack)

    def _text(self, line: bytes, start: int, size_bytes: int) -> bytes:
        if not size_bytes or start + size_bytes > len(line):
            self._refuse(line, "a text of the size that it says")
        return line[start : start + size_bytes]

    def _refuse(self, line: bytes, what: str) -> re.Match[bytes]:
        """Raise the error for a line; it returns nothing."""
        raise LineError(self._source.path, "line", self._number, f"{line[:60]!r} is not {what}")
