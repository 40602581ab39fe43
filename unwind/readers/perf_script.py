"""Read the text that `perf script` prints, with or without `-F` and `--show-mmap-events`.

    shop 4242/4243 [001] 25981.991483:   10101010 cpu-clock:          head: what it has, `-F` chooses
                    118a spin+0x11 (/usr/bin/shop)                    address, name, file; innermost first
                    2101 take+0x5 (inlined)                           what perf has found inlined in the next line: left
                    2101 run+0x21 (/usr/bin/shop)                     out, as it has the address of that
        ffffffff813a2413 finish_task_switch ([kernel.kallsyms])
                                                                      an empty line ends a stack
    shop 4242 25981.992: 1 cpu-clock:  55d2c0a01136 main (/usr/bin/shop)          without call chains: one line
    shop 4242 25981.990: PERF_RECORD_MMAP2 4242/4242: [0x55d2c0a01000(0x1000) @ 0x1000 fe:00 26 0]: r-xp /usr/bin/shop

Up to perf 6.3 addresses in call chains are offsets in the file, from 6.4 on those of the process, and nothing says
which it was. Mappings decide, where they are printed: an address that lies in a mapping of its file is one of the
process, one that lies in the mapped part of the file is an offset. Without them small numbers are taken for offsets,
which one line reports, and others are of a process of which nothing is known.

perf prints `(inlined)` also for the file of a frame itself, where symbol and debug information have two names for it,
as of merged functions. No other line has its address then. The frame is kept, without the name, which may be wrong.

Names of kernel functions and of those made at run time are kept, since no linker has folded what they are of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from icf.log import note
from unwind.process.maps import VDSO
from unwind.readers.source import LineError, Source
from unwind.samples.recording import (
    Base,
    Label,
    Losses,
    RecordedFrame,
    RecordedModule,
    RecordedProcess,
    Recording,
    Sample,
    Value,
)

_TASK = r"(?P<comm>\S.*?)\s+(?:(?P<pid>-?\d+)/)?(?P<tid>-?\d+)(?:\s+\[(?P<cpu>\d+)\])?"
_TIME = r"\s+(?P<seconds>\d+)\.(?P<rest>\d+):"
_EVENT_AND_FRAME = r"(?:\s+(?P<period>\d+))?(?:\s+(?P<event>\S*[^\s:]):+)?(?:\s+(?P<frame>[0-9a-f]+ .*))?\s*"
_TIMED_HEAD = re.compile(_TASK + _TIME + _EVENT_AND_FRAME)
_HEAD = re.compile(f"{_TASK}(?:{_TIME})?{_EVENT_AND_FRAME}")
_FRAME = re.compile(
    r"\s*(?P<address>[0-9a-f]{1,16})(?:\s+(?P<name>.*?))??(?:\s+\((?P<file>[^()]*(?: \(deleted\))?)\))?\s*"
)
_RECORD = re.compile(r"(?:.*?\s)?PERF_RECORD_(?P<kind>\w+)\s?(?P<rest>.*)")
_MAPPED = re.compile(
    r"(?P<pid>-?\d+)/-?\d+: \[0x(?P<start>[0-9a-f]+)\(0x(?P<size>[0-9a-f]+)\) @ (?:0x)?(?P<offset>[0-9a-f]+)"
    r"(?: (?:[0-9a-f]+:[0-9a-f]+ \d+ \d+|<(?P<id>[0-9a-f]+)>))?\]: (?P<rights>\S+) (?P<path>.*)"
)
_FORKED = re.compile(r"\((\d+):(\d+)\):\((\d+):\d+\)")
_EXECUTED = re.compile(r"exec: .*:(\d+)/\d+")
_OFFSET = re.compile(r"(?P<name>.*)\+0x[0-9a-f]+")
_FILE_OFFSET = re.compile(r"(?P<file>.*)\+0x(?P<offset>[0-9a-f]+)")
_EVENT = re.compile(rb"^\S.*? +\d+\.\d+: +\d+ +(\S*[^\s:]):", re.MULTILINE)
_UNKNOWN, _INLINED, _DELETED = "[unknown]", "inlined", " (deleted)"
_INLINED_END = f"({_INLINED})"
_OF_DATA = "perf script --no-inline prints it; perf.data itself says all"
_RUN_TIME_CODE = re.compile(r"/tmp/perf-\d+\.map|\[JIT\] .*|bpf_prog_\w+|//anon")
_LEAST_OF_PROCESS = 1 << 36
_KEPT_FRAMES = 1 << 20
_PERIOD = 1  # index of the value


def recognizes(head: bytes) -> bool:
    """Return whether the first lines are a head with its frames, or a mapping."""
    lines = [line for line in head.decode("utf-8", "replace").splitlines()[:50] if line.strip() and line[:1] != "#"]
    if not lines:
        return False
    first = lines[0]
    if _RECORD.fullmatch(first):
        return True
    if first[:1].isspace() and (match := _FRAME.fullmatch(first)) is not None and match["file"] is not None:
        return True
    match = _head(first)
    if match is None:
        return False
    if match["event"] is None and match["seconds"] is None:
        following = _FRAME.fullmatch(lines[1]) if len(lines) > 1 and lines[1][:1].isspace() else None
        return following is not None and following["file"] is not None
    return match["frame"] is not None or len(lines) == 1 or _FRAME.fullmatch(lines[1]) is not None


def read(source: Source) -> Recording:
    """Return the samples, read line by line; `LineError` for a line of no kind above."""
    events = set(_EVENT.findall(source.head))
    event = events.pop().decode("utf-8", "replace") if len(events) == 1 else "period"
    samples = _Text(source)
    return Recording("perf-script", samples, (Value(), Value(event)), Losses.FRAME_POINTERS, shown=_PERIOD)


class _Process:
    """A process and its mappings so far; another one after each change."""

    def __init__(self, pid: int, mapped: tuple[RecordedModule, ...]) -> None:
        self.mapped = mapped
        self.recorded = RecordedProcess(pid, list(mapped))
        self.frames: dict[tuple[str, bool], RecordedFrame | None] = {}


class _Frames:
    """The frames of a stack while its lines are read."""

    def __init__(self, text: _Text, process: _Process) -> None:
        self._text, self._process = text, process
        self._frames: list[RecordedFrame] = []
        self._is_after_kernel = False
        self._inlined: int | None = None  # the address of the lines just read of what is inlined

    def add(self, line: str) -> None:
        """Add the frame of a line, if it has one: a line of source has none."""
        if self._inlined is not None or line.endswith(_INLINED_END):
            match = _FRAME.fullmatch(line)
            address = int(match["address"], 16) if match is not None else self._inlined
            if self._inlined not in (None, address):
                self._add_inlined()
            if match is not None and match["file"] == _INLINED:
                self._inlined = address
                return
            self._inlined = self._inlined if match is None else None
        frame = self._text.frame(line, self._process, self._is_exact)
        if frame is not None:
            self._append(frame)

    def take(self) -> list[RecordedFrame]:
        """Return the frames; the stack is at its end."""
        if self._inlined is not None:
            self._add_inlined()
        return self._frames

    @property
    def _is_exact(self) -> bool:
        return not self._frames or self._is_after_kernel

    def _add_inlined(self) -> None:
        """Add the frame at the address of the lines just read, which no line with a file has."""
        assert self._inlined is not None
        self._append(self._text.frame_without_file(self._inlined, self._process, self._is_exact))

    def _append(self, frame: RecordedFrame) -> None:
        self._inlined = None
        self._frames.append(frame)
        self._is_after_kernel = _is_kernel(frame)


class _Text:
    """The samples of a text."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._processes: dict[int, _Process] = {}
        self._of_thread: dict[int, int] = {}
        self._offset_count = self._unplaced_count = self._without_file_count = 0

    def __iter__(self) -> Iterator[Sample]:
        head: re.Match[str] | None = None
        process = self._process(0)
        frames = _Frames(self, process)
        is_open = False
        for number, line_bytes in enumerate(self._source.lines(), 1):
            line = line_bytes.decode("utf-8", "surrogateescape").rstrip("\n")
            if not line.strip():
                if is_open and ((stack := frames.take()) or head is not None):
                    yield self._sample(head, stack, process)
                head, is_open = None, False
                continue
            if line.startswith("#"):
                continue
            if is_open and line[:1].isspace():
                frames.add(line)
                continue
            if is_open:
                yield self._sample(head, frames.take(), process)
                head, is_open = None, False
            record = _RECORD.fullmatch(line) if "PERF_RECORD_" in line else None
            if record is not None:
                self._change(record["kind"], record["rest"])
                continue
            head = _head(line)
            if head is not None and not (line[:1].isspace() and _FRAME.fullmatch(line) and head["event"] is None):
                process = self._process_of(head)
                frames = _Frames(self, process)
                if head["frame"] is not None:
                    frames.add(head["frame"])
                    yield self._sample(head, frames.take(), process)
                    continue
                is_open = True
            elif _FRAME.fullmatch(line):
                head, process, is_open = None, self._process(0), True
                frames = _Frames(self, process)
                frames.add(line)
            else:
                raise LineError(self._source.path, "line", number, f"{line[:60]!r} is not a line of `perf script`")
        if is_open:
            yield self._sample(head, frames.take(), process)
        self._report()

    def _sample(self, head: re.Match[str] | None, frames: list[RecordedFrame], process: _Process) -> Sample:
        if head is None:
            return Sample(tuple(frames), process.recorded, (1, 1))
        labels = [Label("pid", process.recorded.pid), Label("tid", int(head["tid"]))]
        labels.append(Label("comm", head["comm"]))
        if head["cpu"] is not None:
            labels.append(Label("cpu", int(head["cpu"])))
        if head["event"] is not None:
            labels.append(Label("event", head["event"]))
        time_ns = int(head["seconds"]) * 10**9 + int(head["rest"][:9].ljust(9, "0")) if head["seconds"] else 0
        return Sample(tuple(frames), process.recorded, (1, int(head["period"] or 1)), tuple(labels), time_ns)

    # Processes

    def _process_of(self, head: re.Match[str]) -> _Process:
        """Return the process of a sample; by default perf prints the thread alone."""
        tid = int(head["tid"])
        pid = int(head["pid"] or self._of_thread.get(tid, tid))
        if head["pid"] is None and pid not in self._processes:
            having = [each for each in self._processes.values() if each.mapped]
            if len(having) == 1:
                return having[0]
        return self._process(pid)

    def _process(self, pid: int) -> _Process:
        process = self._processes.get(pid)
        if process is None:
            process = self._processes[pid] = _Process(pid, ())
        return process

    def _change(self, kind: str, rest: str) -> None:
        if kind in ("MMAP", "MMAP2"):
            match = _MAPPED.fullmatch(rest)
            if match is None or not match["path"].startswith("/") or "x" not in match["rights"]:
                return
            start, offset = int(match["start"], 16), int(match["offset"], 16)
            end, pid = start + int(match["size"], 16), int(match["pid"])
            build_id = bytes.fromhex(match["id"] or "") if len(match["id"] or "") % 2 == 0 else b""
            path = match["path"].removesuffix(_DELETED) if build_id else match["path"]
            module = RecordedModule(path, build_id, Base.RUN_TIME, start, end, offset)
            left = [each for each in self._process(pid).mapped if each.end <= start or end <= each.start]
            self._processes[pid] = _Process(pid, (*left, module))
        elif kind == "FORK" and (match := _FORKED.match(rest)) is not None:
            pid, tid, parent = (int(each) for each in match.groups())
            self._of_thread[tid] = pid
            if pid != parent:
                self._processes[pid] = _Process(pid, self._process(parent).mapped)
        elif kind == "COMM" and (match := _EXECUTED.match(rest)) is not None:
            self._processes[int(match[1])] = _Process(int(match[1]), ())

    # Frames

    def frame_without_file(self, address: int, process: _Process, is_exact: bool) -> RecordedFrame:
        """Return the frame at an address, which lies in a mapping, or nothing says of which file it is."""
        key = f"{address:x} {_INLINED_END}", is_exact
        known = process.frames.get(key)
        if known is None:
            module = next((each for each in process.mapped if each.start <= address < each.end), None)
            self._without_file_count += module is None
            known = process.frames[key] = RecordedFrame(address, module, is_exact=is_exact)
        return known

    def frame(self, line: str, process: _Process, is_exact: bool) -> RecordedFrame | None:
        """Return the frame of a line; None if it has none, as a line of source."""
        key = line, is_exact
        if key not in process.frames:
            if len(process.frames) >= _KEPT_FRAMES:
                process.frames.clear()
            process.frames[key] = self._made(line, process, is_exact)
        return process.frames[key]

    def _made(self, line: str, process: _Process, is_exact: bool) -> RecordedFrame | None:
        match = _FRAME.fullmatch(line)
        if match is None:
            return None
        address, name, file = int(match["address"], 16), match["name"] or "", match["file"] or ""
        offset = _OFFSET.fullmatch(name)
        name = "" if name.startswith(_UNKNOWN) else offset["name"] if offset is not None else name
        in_file = _FILE_OFFSET.fullmatch(file)
        if in_file is not None:  # -F +dsoff
            file = in_file["file"]
        if not file.startswith("/") or _RUN_TIME_CODE.fullmatch(file):
            is_known = bool(name) and (file.startswith("[") or bool(_RUN_TIME_CODE.fullmatch(file)))
            is_certain = is_known and file not in (_UNKNOWN, VDSO)
            return RecordedFrame(address, name=name or file, is_exact=is_exact, is_certain=is_certain)
        if in_file is not None:
            return RecordedFrame(int(in_file["offset"], 16), _by_offset(file, process), name, is_exact=is_exact)
        of_file = [each for each in process.mapped if each.path == file or each.path == file.removesuffix(_DELETED)]
        for module in of_file:
            if module.start <= address < module.end:
                return RecordedFrame(address, module, name, is_exact=is_exact)
        is_offset = any(0 <= address - each.offset < each.end - each.start for each in of_file)
        if is_offset or (not of_file and address < _LEAST_OF_PROCESS):
            self._offset_count += not is_offset
            return RecordedFrame(address, _by_offset(file, process), name, is_exact=is_exact)
        self._unplaced_count += not of_file
        return RecordedFrame(address, None, name, is_exact=is_exact)

    def _report(self) -> None:
        hint = "perf script --show-mmap-events prints where files were mapped; perf.data itself says all"
        path = self._source.path
        if self._offset_count:
            note(f"{path}: addresses are taken for offsets in files, as perf up to 6.3 prints them", hint)
        if self._without_file_count:
            note(f"{path}: perf has `(inlined)` in place of the file of some frames, which are unknown", _OF_DATA)
        if self._unplaced_count:
            note(f"{path}: addresses of processes are not looked up, as no mappings are printed", hint)


def _head(line: str) -> re.Match[str] | None:
    """Return the head that a line is; the name of a thread may end in numbers, so the time tells it from others."""
    return _TIMED_HEAD.fullmatch(line.strip()) or _HEAD.fullmatch(line.strip())


def _by_offset(file: str, process: _Process) -> RecordedModule:
    build_id = next((each.build_id for each in process.mapped if each.path == file), b"")
    module = RecordedModule(file, build_id, Base.OFFSET)
    if module not in process.recorded.modules:
        process.recorded.modules.append(module)
    return module


def _is_kernel(frame: RecordedFrame) -> bool:
    return frame.module is None and frame.address is not None and frame.address >> 63 == 1
