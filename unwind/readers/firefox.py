"""Read profiles of the Firefox Profiler in its processed format (samply, Firefox): JSON, compressed with gzip or not.

A thread has columns, whose rows mean each other by their number; here the stack main, run, copy (inlined in run):

    samples     stack 2                           when, and how much
    stackTable  frame [0, 1, 2]  prefix [null, 0, 1]      the frame inwards of the stack `prefix`
    frameTable  address [0x1180, 0x1136, 0x1136]  inlineDepth [0, 0, 1]  func [0, 1, 2]  nativeSymbol [0, 1, 1]
    funcTable   name [0, 1, 2]  resource [0, 0, 0]        names are rows of stringArray
    libs        path, debugPath, codeId: the build id in hexadecimal

An address is relative to the lowest address of its library. The library is that of the
frame's native symbol, or before names were looked up, of its function's resource; -1 is the address of what has none.
Return addresses are less one. Later versions have tables that all threads share in `shared`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from icf.errors import FormatError
from unwind.readers.firefox_tables import FirefoxThread, Json, threads_of
from unwind.readers.gzipped import inflate_content, inflate_head
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

_SAMPLES = "samples", "nativeAllocations"
_KEPT_STACKS = 1 << 16
_BUILD_ID = re.compile(r"(?:[0-9a-fA-F]{2}){4,64}")
_START = re.compile(rb'\s*\{\s*"')
_KEY = re.compile(rb'"(?:preprocessedProfileVersion|stackTable|frameTable)"\s*:')
_VALUES = {
    "samples": (Value("samples", "count"), 1),
    "bytes": (Value("space", "bytes"), 1),
    "tracing-ms": (Value("time", "nanoseconds"), 1_000_000),
}


class FirefoxOrigin(NamedTuple):
    """The whole as it was read."""

    profile: dict[str, Json]
    threads: Sequence[FirefoxThread]


class StackOrigin(NamedTuple):
    """Where a stack of a sample stands."""

    thread_idx: int
    stack_idx: int


def recognizes(head: bytes) -> bool:
    """Return whether a file with these first bytes is JSON with a key of the format."""
    head = inflate_head(head)
    return bool(_START.match(head) and _KEY.search(head))


def read(source: Source) -> Recording:
    """Read a profile; raises `FormatError` for what breaks the format."""
    try:
        profile = json.loads(str(inflate_content(source.content()), "utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise FormatError(source.path, "JSON", getattr(error, "pos", 0), f"cannot be read: {error}") from None
    threads = threads_of(profile, source.path)
    kinds = {thread.weight_type(table) for thread in threads for table in _SAMPLES if thread.has(table)}
    values = [kind for kind in _VALUES if kind in kinds] or ["samples"]
    reading = _Reading(threads, values)
    return Recording(
        "firefox",
        reading.samples(),
        tuple([_VALUES[kind][0] for kind in values]),
        Losses.NONE,
        FirefoxOrigin(profile, threads),
    )


class _Reading:
    def __init__(self, threads: Sequence[FirefoxThread], values: list[str]) -> None:
        self._threads, self._values = threads, values
        self._processes: dict[str, RecordedProcess] = {}
        self._modules: dict[tuple[str, int], RecordedModule] = {}

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of each thread, and its allocations."""
        for thread_idx, thread in enumerate(self._threads):
            process = self._processes.setdefault(thread.pid, _process(thread.pid))
            labels = Label("comm", thread.name), Label("tid", thread.tid)
            frames: dict[tuple[int, ...], RecordedFrame] = {}
            stacks: dict[int, tuple[RecordedFrame, ...]] = {}
            for table in _SAMPLES:
                if not thread.has(table):
                    continue
                value_idx = self._values.index(thread.weight_type(table))
                scale = _VALUES[self._values[value_idx]][1]
                for stack_idx, weight, time_ms in thread.samples(table):
                    stack = stacks.get(stack_idx)
                    if stack is None:
                        if len(stacks) >= _KEPT_STACKS:
                            stacks.clear()
                        groups = thread.stack(stack_idx)
                        for group in groups:
                            if group not in frames:
                                frames[group] = self._frame(thread, group, process)
                        stack = stacks[stack_idx] = tuple([frames[group] for group in groups])
                    weights = [0] * len(self._values)
                    weights[value_idx] = round(weight * scale)
                    origin = StackOrigin(thread_idx, stack_idx)
                    yield Sample(stack, process, tuple(weights), labels, round(time_ms * 1_000_000), origin=origin)

    def _frame(self, thread: FirefoxThread, group: tuple[int, ...], process: RecordedProcess) -> RecordedFrame:
        """Return the frame that has the machine code, with what is inlined in it."""
        *inlined, own = [Inlined(*thread.place(idx)) for idx in group]
        address, lib_idx = thread.address(group[-1])
        module = self._module(thread, lib_idx, process) if address is not None else None
        is_certain = thread.is_script(group[-1]) or thread.lib_path(lib_idx).startswith("[kernel")
        return RecordedFrame(
            address if module is not None else None,
            module,
            own.name,
            own.file,
            own.line,
            inlined=tuple(inlined),
            is_certain=is_certain,
        )

    def _module(self, thread: FirefoxThread, lib_idx: int, process: RecordedProcess) -> RecordedModule | None:
        path = thread.lib_path(lib_idx)
        if not path or path.startswith("["):
            return None
        code_id = thread.lib_code_id(lib_idx)
        build_id = bytes.fromhex(code_id) if _BUILD_ID.fullmatch(code_id) else b""
        module = RecordedModule(path, build_id, Base.LOWEST)
        if module not in process.modules:
            process.modules.append(module)
        return module


def _process(pid: str) -> RecordedProcess:
    return RecordedProcess(int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 10 else 0)
