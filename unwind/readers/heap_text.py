"""Read heap profiles that are text: gperftools, jemalloc; and gperftools's profiles of locks.

gperftools (`HEAPPROFILE`, `/pprof/heap`, `/pprof/growth`), Go with `debug=1`, jemalloc up to 3.5:

    heap profile:    12:   4096 [    40:  16384] @ heapprofile
         3:     1024 [    10:     4096] @ 0x55d0a1136 0x55d0a1180
    objects: bytes in use [allocated] @ the stack, innermost frame first

jemalloc 3.6 and later (`prof:true`); `t*` counts all threads, `t3` one of them, with its name at the top if it has one:

    heap_v2/524288
      t*: 13: 6688 [0: 0]
      t3: 12: 6496 [0: 0] worker
    @ 0x55d0a1136 0x55d0a1180
      t*: 13: 6688 [0: 0]
      t3: 12: 6496 [0: 0]
      t9: 1: 192 [0: 0]

gperftools's locks (`/pprof/contention`), cycles waited and how often:

    --- contention:
    cycles/second = 3201000000
       19490304       27 @ 0x55d0a1136 0x55d0a1180

After each of them `MAPPED_LIBRARIES:` or `--- Memory map: ---` and the text of /proc/PID/maps. Every address is a
return address as it lay on the stack, the first too: it returns from the allocator. The numbers are those of the
sampled objects as they stand there; jeprof and pprof multiply them by what was not sampled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from unwind.readers.mapped import MappedFrames
from unwind.readers.source import LineError, Source
from unwind.samples.recording import Label, Losses, Recording, Sample, Value

_HEADS = b"heap profile:", b"heap_v2/", b"--- contention", b"--- mutex"
_MAPS = re.compile(rb"MAPPED_LIBRARIES:|--- *Memory map: *---")
_COUNTS = rb"(\d{1,18}): *(\d{1,18}) *\[ *(\d{1,18}): *(\d{1,18}) *\]"
_HEAP = re.compile(rb"heap profile: *" + _COUNTS + rb" *@.*")
_STACK = re.compile(rb" *" + _COUNTS + rb" *@((?: +0x[0-9a-f]{1,16})*) *")
_JEMALLOC_HEAD = re.compile(rb"heap_v2/\d{1,18}")
_JEMALLOC_STACK = re.compile(rb"@((?: +0x[0-9a-f]{1,16})*) *")
_THREAD = re.compile(rb" *t(\*|\d{1,18}): *" + _COUNTS + rb" ?(.*)")
_LOCK_HEAD = re.compile(rb"--- (?:contention|mutex).*")
_LOCK_FACT = re.compile(rb"[\w /]+ *= *-?\d+ *")
_LOCK_STACK = re.compile(rb" *(\d{1,18}) +(\d{1,18}) *@((?: +0x[0-9a-f]{1,16})*) *")
_HEAP_VALUES: tuple[Value, ...] = (
    Value("alloc_objects", "count"),
    Value("alloc_space", "bytes"),
    Value("inuse_objects", "count"),
    Value("inuse_space", "bytes"),
)
_LOCK_VALUES: tuple[Value, ...] = Value("contentions", "count"), Value("delay", "cycles")


class _Entry(NamedTuple):
    addresses: tuple[int, ...]
    weights: tuple[int, ...]
    labels: tuple[Label, ...] = ()


def recognizes(head: bytes) -> bool:
    """Return whether a file with these first bytes is such a profile."""
    return head.startswith(_HEADS)


def read(source: Source) -> Recording:
    """Read a heap profile or a profile of locks; raises `FormatError` for a line that it cannot have."""
    lines = _Lines(source)
    head = next(lines, b"")
    values = _HEAP_VALUES
    if _HEAP.fullmatch(head):
        entries = list(_entries(lines))
    elif _JEMALLOC_HEAD.fullmatch(head):
        entries = list(_entries_by_thread(lines))
    elif _LOCK_HEAD.fullmatch(head):
        values, entries = _LOCK_VALUES, list(_lock_entries(lines))
    else:
        raise lines.error(head, "the first line of a heap profile")
    frames = MappedFrames(lines.maps(), source.path)
    return Recording("heap", _samples(entries, frames), values, Losses.NONE)


def _samples(entries: list[_Entry], frames: MappedFrames) -> Iterator[Sample]:
    for entry in entries:
        stack = frames.stack(entry.addresses, is_called=True)
        yield Sample(stack, frames.process, entry.weights, entry.labels, is_called=True)


class _Lines:
    """The lines up to those of the maps; without comments and empty ones."""

    def __init__(self, source: Source) -> None:
        self._path = source.path
        self._lines = source.lines()
        self._number = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while True:
            line = next(self._lines).rstrip()
            self._number += 1
            if _MAPS.fullmatch(line):
                raise StopIteration
            if line and not line.startswith(b"#"):
                return line

    def maps(self) -> bytes:
        """Return what is left."""
        return b"\n".join([line.rstrip(b"\r\n") for line in self._lines if not line.startswith(b"build=")])

    def error(self, line: bytes, what: str) -> LineError:
        """Return the error for the line that was given last."""
        return LineError(self._path, "line", max(self._number, 1), f"{line[:60]!r} is not {what}")


def _entries(lines: _Lines) -> Iterator[_Entry]:
    for line in lines:
        match = _STACK.fullmatch(line)
        if match is None:
            raise lines.error(line, "`objects: bytes [objects: bytes] @ addresses`")
        yield _Entry(_addresses(match[5]), _weights(match))


def _entries_by_thread(lines: _Lines) -> Iterator[_Entry]:
    names: dict[bytes, str] = {}
    addresses: tuple[int, ...] | None = None
    threads: list[_Entry] = []
    for line in lines:
        stack = _JEMALLOC_STACK.fullmatch(line)
        if stack is not None:
            yield from _by_thread(threads)
            addresses, threads = _addresses(stack[1]), []
            continue
        match = _THREAD.fullmatch(line)
        if match is None:
            raise lines.error(line, "`@ addresses` or `tN: objects: bytes [objects: bytes]`")
        thread = match[1].decode()
        if addresses is None:
            names[match[1]] = match[6].decode("utf-8", "surrogateescape") or thread
        elif thread == "*":
            threads.append(_Entry(addresses, _weights(match, 1)))
        else:
            threads.append(_Entry(addresses, _weights(match, 1), (Label("thread", names.get(match[1], thread)),)))
    yield from _by_thread(threads)


def _by_thread(entries: list[_Entry]) -> list[_Entry]:
    """Return the entries of the threads if they are all there is, else that of all threads."""
    total = [each for each in entries if not each.labels]
    threads = [each for each in entries if each.labels]
    if not total:
        return threads
    sums = tuple([sum(column) for column in zip(*[each.weights for each in threads], strict=True)])
    return threads if sums == total[0].weights else total[:1]


def _lock_entries(lines: _Lines) -> Iterator[_Entry]:
    for line in lines:
        match = _LOCK_STACK.fullmatch(line)
        if match is not None:
            yield _Entry(_addresses(match[3]), (int(match[2]), int(match[1])))
        elif not _LOCK_FACT.fullmatch(line):
            raise lines.error(line, "`cycles count @ addresses`")


def _weights(match: re.Match[bytes], before: int = 0) -> tuple[int, ...]:
    """Return allocated objects and bytes, and those in use; `before` groups stand before the numbers."""
    used, used_bytes, made, made_bytes = (int(match[before + idx]) for idx in (1, 2, 3, 4))
    return made, made_bytes, used, used_bytes


def _addresses(text: bytes) -> tuple[int, ...]:
    return tuple([int(each, 16) for each in text.split()])
