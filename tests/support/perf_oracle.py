"""The frames that perf itself reads in a recording, from the text of `perf script`, to compare with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from unwind.process.maps import VDSO
from unwind.samples.recording import RecordedFrame, Sample

FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"
_FRAME = r"\s*([0-9a-f]+) (.*) \((.*)\)"
_HEAD = re.compile(rf"\s*(.*?)\s+(-?\d+)/(\d+)\s+(\d+)\.(\d+):\s+(\d+)\s+(\S+):(?: {_FRAME})?\s*")
_LINE = re.compile(_FRAME)
_NOT_FILES = ("[", "//anon")


class PerfSample(NamedTuple):
    """A sample as perf shows it; a frame is (offset in the file, its path), or (address, "") if it is in none."""

    comm: str
    pid: int
    tid: int
    time_us: int
    period: int
    event: str
    frames: tuple[tuple[int, str], ...]


def of_perf(text: str) -> list[PerfSample]:
    """Return the samples of `perf script --no-inline -F` with FIELDS: perf <= 6.3 prints offsets in call chains."""
    found: list[PerfSample] = []
    for line in text.splitlines():
        head, frame = _HEAD.fullmatch(line), _LINE.fullmatch(line)
        if head is not None:
            comm, pid, tid, seconds, rest, period, event, *frame_of = head.groups()
            frames = (_frame(frame_of[0], "[" if not frame_of[2].startswith("[k") else ""),) if frame_of[0] else ()
            times = int(seconds) * 1_000_000 + int(rest)
            found.append(PerfSample(comm, int(pid), int(tid), times, int(period), event, frames))
        elif frame is not None:
            found[-1] = found[-1]._replace(frames=(*found[-1].frames, _frame(frame[1], frame[3])))
    return found


def of_reader(samples: Iterable[Sample], *, has_chains: bool = True) -> list[PerfSample]:
    """Return the same of samples that were read."""
    found = []
    for sample in samples:
        labels = {label.key: label.value for label in sample.labels}
        frames = []
        for frame in sample.frames:
            assert frame.address is not None
            module = frame.module if has_chains else None
            offset = frame.address - module.start + module.offset if module is not None else frame.address
            frames.append((0, VDSO) if is_of_vdso(frame) else (offset, module.path if module is not None else ""))
        period = max(sample.weights[1::2])
        pid, tid = int(labels["pid"]), int(labels["tid"])
        event, comm = str(labels["event"]), str(labels.get("comm", ""))
        found.append(PerfSample(comm, pid, tid, sample.time_ns // 1000, period, event, tuple(frames)))
    return sorted(found, key=lambda each: (each.time_us, each.tid))


def is_of_vdso(frame: RecordedFrame) -> bool:
    """Return whether a frame is in the vdso."""
    return frame.module is None and (frame.name == VDSO or frame.name.startswith("__vdso_"))


def _frame(address: str, path: str) -> tuple[int, str]:
    if path == VDSO:
        return 0, VDSO
    return int(address, 16), "" if path.startswith(_NOT_FILES) else path
