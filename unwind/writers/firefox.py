"""Write resolved samples as a processed profile of the Firefox Profiler, version 48 of the format.

What was read as such a profile is written again with right names (`firefox_renamed`). From other formats a profile is
made: a thread for each process and thread of the recording, samples in the order of time with one of their values
as weight, a library for each module. Source: firefox-devtools/profiler, src/types/profile.ts.

An address counts from the lowest of its library. That is the address as linked in an image that can lie anywhere, which
shows when it did not lie where it was linked. Other frames have names alone.
"""

from __future__ import annotations

import json
import os
import uuid
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from unwind.readers.firefox import FirefoxOrigin
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import RecordedFrame, RecordedModule, Recording, Sample
from unwind.symbolize.answer import Answer
from unwind.writers.firefox_renamed import RenamedFirefoxWriter
from unwind.writers.firefox_rows import ThreadRows
from unwind.writers.named import Namer
from unwind.writers.protocol import Writer

_VERSION, _GECKO_VERSION = 48, 30
_PAGE_BYTES = 4096
_NS_PER_MS = 1_000_000
_LIBRARY = 1  # kind of a resource
_NO_ROW, _ROW_BITS = -1, 32
_CATEGORIES = [{"name": "Other", "color": "grey", "subcategories": ["Other"]}]
_COLUMNS = {
    "frameTable": (
        "address",
        "inlineDepth",
        "category",
        "subcategory",
        "func",
        "nativeSymbol",
        "innerWindowID",
        "implementation",
        "line",
        "column",
    ),
    "funcTable": ("name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber", "columnNumber"),
    "resourceTable": ("lib", "name", "host", "type"),
    "nativeSymbols": ("libIndex", "address", "name", "functionSize"),
    "markers": ("data", "name", "startTime", "endTime", "phase", "category"),
}


def open_writer(recording: Recording, namer: Namer) -> Writer:
    """Return what writes samples of a recording for the Firefox Profiler."""
    if isinstance(recording.origin, FirefoxOrigin):
        return RenamedFirefoxWriter(recording.origin, namer)
    return FirefoxWriter(recording, namer)


class _ThreadKey(NamedTuple):
    pid: int
    tid: int | str
    name: str


class FirefoxWriter:
    """Collects samples, and writes them when all are there."""

    def __init__(self, recording: Recording, namer: Namer) -> None:
        self._namer, self._shown = namer, recording.shown
        unit = recording.values[recording.shown].unit
        self._weight_type = {"bytes": "bytes", "nanoseconds": "tracing-ms"}.get(unit, "samples")
        self._libs: dict[tuple[str, bytes], int] = {}
        self._threads: dict[_ThreadKey, _Thread] = {}

    def write(self, resolved: Resolved) -> bytes:
        """Add a sample; nothing is written yet."""
        key = _thread_of(resolved.sample)
        thread = self._threads.get(key)
        if thread is None:
            thread = self._threads[key] = _Thread(self._namer, self._libs)
        weight: float = resolved.sample.weights[self._shown]
        if self._weight_type == "tracing-ms":
            weight /= _NS_PER_MS
        thread.samples.append((resolved.sample.time_ns, thread.stack(resolved), weight))
        return b""

    def end(self) -> Iterator[bytes]:
        """Yield the file."""
        profile = {
            "meta": {
                "interval": 1,
                "startTime": 0,
                "processType": 0,
                "product": "icf",
                "stackwalk": 1,
                "version": _GECKO_VERSION,
                "preprocessedProfileVersion": _VERSION,
                "symbolicated": True,  # or the viewer looks names up itself
                "categories": _CATEGORIES,
                "markerSchema": [],
            },
            "libs": [_lib(*identity) for identity in self._libs],
        }
        yield _json(profile)[:-1] + b',"threads":['
        processes: set[int] = set()
        for number, (key, thread) in enumerate(self._threads.items()):
            is_main = key.tid == key.pid or key.pid not in processes
            yield b"," * bool(number) + _json(thread.written(key, is_main, self._weight_type))
            processes.add(key.pid)
        yield b"]}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class _Thread:
    """A thread that is made."""

    def __init__(self, namer: Namer, libs: dict[tuple[str, bytes], int]) -> None:
        self._namer, self._libs = namer, libs
        tables: dict[str, Any] = {
            name: {**{column: [] for column in columns}, "length": 0} for name, columns in _COLUMNS.items()
        }
        self._rows = ThreadRows({**tables, "stringArray": []})
        self._resources: dict[RecordedModule, int] = {}
        self._of_frame: dict[tuple[RecordedFrame, Answer], tuple[int, ...]] = {}
        self._stacks: dict[tuple[tuple[RecordedFrame, ...], tuple[Answer, ...]], int | None] = {}
        self._nodes: dict[int, int] = {}  # of stackTable: (row of the prefix + 1) << 32 | frame -> row
        self._prefixes, self._node_frames = array("q"), array("q")  # by row; -1: no prefix
        self.samples: list[tuple[int, int | None, float]] = []  # time, stack, weight

    def stack(self, resolved: Resolved) -> int | None:
        """Return the row of a stack; None if it has no frames."""
        key = resolved.sample.frames, resolved.answers
        if key not in self._stacks:
            nodes, row = self._nodes, _NO_ROW
            for pair in zip(reversed(key[0]), reversed(key[1]), strict=True):
                frames = self._of_frame.get(pair)
                if frames is None:
                    frames = self._of_frame[pair] = tuple(self._frames(*pair))
                for frame in frames:
                    node = row + 1 << _ROW_BITS | frame
                    following = nodes.get(node)
                    if following is None:
                        following = nodes[node] = len(self._prefixes)
                        self._prefixes.append(row)
                        self._node_frames.append(frame)
                    row = following
            self._stacks[key] = None if row == _NO_ROW else row
        return self._stacks[key]

    def _frames(self, recorded: RecordedFrame, answer: Answer) -> Iterator[int]:
        """Yield the frames that a recorded one stands for, the outermost first."""
        module = recorded.module
        resource = -1 if module is None else self._resource(module)
        depth = 0
        for named in reversed(self._namer.frame(recorded, answer)):
            depth = depth + 1 if named.is_inlined else 0
            if not depth:
                at, start = (-1, -1) if named.address is None else _linked(recorded, answer)
                symbol = None
                if module is not None and at >= 0:
                    symbol = self._rows.symbol(self._libs[_identity(module)], start, answer.size_bytes, named.name)
            yield self._rows.frame(
                address=at,
                inlineDepth=depth,
                category=0,
                subcategory=0,
                func=self._rows.function(named.name, named.file, resource),
                nativeSymbol=symbol,
                innerWindowID=0,
                line=named.line or None,
                column=named.column or None,
            )

    def _resource(self, module: RecordedModule) -> int:
        row = self._resources.get(module)
        if row is None:
            lib = self._libs.setdefault(_identity(module), len(self._libs))
            row = self._resources[module] = self._rows.table("resourceTable").add(
                lib=lib,
                name=self._rows.string(os.path.basename(module.path)),
                type=_LIBRARY,
            )
        return row

    def written(self, key: _ThreadKey, is_main: bool, weight_type: str) -> dict[str, Any]:
        """Return the thread as the profile has it."""
        self.samples.sort(key=lambda sample: sample[0])
        times_ns, stacks, weights = zip(*self.samples, strict=True)
        return {
            "processType": "default",
            "processStartupTime": 0,
            "processShutdownTime": None,
            "registerTime": 0,
            "unregisterTime": None,
            "pausedRanges": [],
            "name": key.name,
            "isMainThread": is_main,
            "processName": key.name,
            "pid": str(key.pid),
            "tid": key.tid,
            "samples": {
                "stack": list(stacks),
                "time": [time_ns / _NS_PER_MS for time_ns in times_ns],
                "weight": list(weights),
                "weightType": weight_type,
                "length": len(stacks),
            },
            **self._rows.tables,
            "stackTable": {
                "frame": self._node_frames.tolist(),
                "prefix": [None if row == _NO_ROW else row for row in self._prefixes],
                "category": [0] * len(self._prefixes),
                "subcategory": [0] * len(self._prefixes),
                "length": len(self._prefixes),
            },
        }


def _thread_of(sample: Sample) -> _ThreadKey:
    labels = {label.key: label.value for label in sample.labels}
    pid = sample.process.pid
    return _ThreadKey(pid, labels.get("tid", pid), str(labels.get("comm", labels.get("thread", "all"))))


def _linked(recorded: RecordedFrame, answer: Answer) -> tuple[int, int]:
    """Return address and start of the function as linked; -1 where they may not count from the library's lowest."""
    module = recorded.module
    if module is None or recorded.address is None or not module.start or not answer.size_bytes:
        return -1, -1
    bias = (recorded.address - answer.vaddr) // _PAGE_BYTES * _PAGE_BYTES
    return (answer.vaddr, answer.start - bias) if bias else (-1, -1)


def _identity(module: RecordedModule) -> tuple[str, bytes]:
    return module.path, module.build_id


def _lib(path: str, build_id: bytes) -> dict[str, object]:
    name = os.path.basename(path)
    # the first 16 bytes of the build id as a GUID, and an age
    breakpad_id = uuid.UUID(bytes_le=build_id[:16].ljust(16, b"\0")).hex.upper() + "0"
    return {
        "arch": "",
        "name": name,
        "path": path,
        "debugName": name,
        "debugPath": path,
        "breakpadId": breakpad_id if build_id else "",
        "codeId": build_id.hex() or None,
    }
