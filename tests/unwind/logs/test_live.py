"""Logs of a process that runs: addresses of functions that were made at run time, and of its libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

from icf.model import Verdict
from tests.support.paths import ROOT
from unwind.logs.live import LiveStacks
from unwind.samples.lossy_process import LossyProcess
from unwind.samples.recording import Losses, RecordedFrame, RecordedProcess, Sample
from unwind.symbolize.answer import Answer
from unwind.target.live_symbolizer import LiveSymbolizer

PROCESS = """
import ctypes, mmap, os, sys
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
start = ctypes.addressof(ctypes.c_char.from_buffer(code))
with open(f"/tmp/perf-{os.getpid()}.map", "w") as file:
    file.write(f"{start:x} 40 py::hot\\n")
puts = ctypes.cast(ctypes.CDLL(None).puts, ctypes.c_void_p).value
print(f"call {start + 0x10:#x} ; {start + 0x800:#x} {puts:#x}")
print(f"#0  0x{start + 0x10:016x} in ?? ()")
print(f"#1  0x{puts:016x} in ?? () from /lib/libc.so.6", flush=True)
sys.stdin.read()
os.unlink(f"/tmp/perf-{os.getpid()}.map")
"""


def test_functions_of_a_running_process(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PROCESS], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        text = "".join(process.stdout.readline() for _ in range(3))
        command = [sys.executable, "-m", "icf", "resolve", "--addresses", "--pid", str(process.pid)]
        command += ["--cache-dir", str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=120, check=True)
        process.stdin.close()
    before, after = text.splitlines(), done.stdout.splitlines()
    call, nothing, puts = before[0].removeprefix("call ").replace("; ", "").split()
    assert after[0].startswith(f"call {call} <py::hot+0x10> ; {nothing} {puts} <") and "puts" in after[0]
    assert after[1] == before[1].replace("??", "py::hot")
    # a function begins there, and no call ends there: it counts as put on the stack by hand
    assert "puts" in after[2] and after[2].partition(" in ")[0] == before[2].partition(" in ")[0]


class AskedSymbolizer:
    """Notes the stacks that it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int | None, ...]] = []

    def resolve(self, addresses: tuple[int | None, ...], vptrs: object, exact: object) -> list[Answer]:
        self.asked.append(addresses)
        return [Answer(address, Verdict.UNKNOWN) for address in addresses]


def test_frames_of_stacks_that_may_lack_some_are_looked_up_alone() -> None:
    """The second of two frames need not be the caller of the first."""
    frames = RecordedFrame(0x1136), RecordedFrame(0x1180)
    for losses, expected in (
        (None, [(0x1136, 0x1180)]),
        (Losses.NONE, [(0x1136, 0x1180)]),
        (Losses.FRAME_POINTERS, [(0x1136,), (None, 0x1180)]),
    ):
        symbolizer = AskedSymbolizer()
        (resolved,) = LiveStacks(cast(LiveSymbolizer, symbolizer)).resolve(
            [Sample(frames, RecordedProcess() if losses is None else LossyProcess(losses=losses))]
        )
        assert symbolizer.asked == expected
        assert [answer.address for answer in resolved.answers] == [0x1136, 0x1180]
