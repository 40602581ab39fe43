"""Core-sharded traces: what threads ran, dealt out to cores as a scheduler does it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

from tests.support.traces import START
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace.container import TraceFile
from unwind.trace.decode import code_bytes
from unwind.trace.reader import TraceReader
from unwind.trace.writer import TraceWriter

FILETYPE = k.HAS_ENCODINGS | k.IS_X86_64 | k.IS_CORE_SHARDED
Event = tuple[bool, Callable[[TraceWriter], None]]  # whether it is an instruction that counts; what writes it


class Recorder:
    """Takes what a `TraceWriter` takes, and keeps it."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def begin(self, tid: int, pid: int, time: int, cpu: int = 0) -> None:
        """Leave out the header: each file of a core has one."""

    def instruction(self, kind: int, address: int, code: bytes, target: int | None = None) -> None:
        self.events.append((kind != k.NO_FETCH, lambda trace: trace.instruction(kind, address, code, target)))

    def data(self, kind: int, address: int, size_bytes: int) -> None:
        self.events.append((False, lambda trace: trace.data(kind, address, size_bytes)))

    def marker(self, kind: int, value: int) -> None:
        self.events.append((False, lambda trace: trace.marker(kind, value)))


def recorded(path: Path) -> list[Event]:
    """Return what a thread's file has, without its header and footer."""
    recorder = Recorder()
    with TraceFile(str(path)) as file:
        reader = TraceReader(file, c.KEEP_INSTRUCTIONS | c.KEEP_DATA | c.KEEP_MARKERS | c.KEEP_KERNEL)
        for rows in reader.rows():
            for row in range(len(rows)):
                what, address, target = rows[row, c.WHAT], rows[row, c.ADDRESS], rows[row, c.TARGET]
                kind, size = what & c.TYPE_MASK, what >> c.SIZE_SHIFT & 0xFFFF
                if kind == k.MARKER:
                    if size not in (k.VERSION, k.FILETYPE, k.CHUNK_INSTR_COUNT, k.CHUNK_FOOTER):
                        recorder.marker(size, address)
                elif kind in (k.READ, k.WRITE):
                    recorder.data(kind, address, size)
                elif kind not in (k.HEADER, k.FOOTER, k.THREAD, k.PID, k.THREAD_EXIT):
                    code = code_bytes(reader.codes, what >> c.CODE_SHIFT)
                    is_indirect = kind in (k.INDIRECT_JUMP, k.INDIRECT_CALL, k.RETURN)
                    recorder.instruction(kind, address, code, target if is_indirect else None)
    return recorder.events


def write_cores(
    folder: Path, threads: dict[int, list[Event]], *, core_count: int, quantum: int, chance: Random, version: int = 7
) -> Path:
    """Write what threads ran as the files of cores: each turn is some thread's, of `quantum` at most."""
    folder.mkdir(exist_ok=True)
    left = {tid: events[:] for tid, events in threads.items()}
    done = dict.fromkeys(threads, 0)
    ran_on: dict[int, int] = {}
    of_core: dict[int, int] = {}
    with ExitStack() as opened:
        cores = []
        for core in range(core_count):
            path = str(folder / f"drmemtrace.core.{core:06}.trace.zip")
            trace = opened.enter_context(TraceWriter(path, filetype=FILETYPE, chunk_size=1000, version=version))
            trace.begin(min(threads), 1, START, core)
            of_core[core] = min(threads)
            cores.append(trace)
        while left:
            tid, core = chance.choice(sorted(left)), chance.randrange(core_count)
            trace = cores[core]
            if of_core[core] != tid:
                trace.thread(tid, 1)
            elif ran_on.get(tid) != core:
                trace.marker(k.CORE_IDLE, 0)
            of_core[core], ran_on[tid] = tid, core
            events, at = left[tid], done[tid]
            turn = chance.randrange(quantum) + 1
            while at < len(events) and (turn > 0 or not events[at][0]):
                events[at][1](trace)
                turn -= events[at][0]
                at += 1
            done[tid] = at
            if at == len(events):
                trace.record(k.THREAD_EXIT, 4, tid)
                del left[tid]
    return folder
