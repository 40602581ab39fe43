"""Unwinding: rows of call frame information and stacks of a recording, each against a peer in the same run.

    python -m tests.bench.unwinding rows IMAGE     all rows of .eh_frame; pyelftools reads the first FDEs of it
    python -m tests.bench.unwinding walk FOLDER    the stacks of a Python that works, recorded by perf into FOLDER, and
                                                   perf script's; nothing where perf may not record

Each prints JSON: rates of the best of a few turns, ours and the peer's by turns.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from icf.dwarf.cfi.frames import CallFrames
from icf.elf.image import Image
from tests.support.call_frames_oracle import rows_of_elftools
from tests.support.toolchain import find
from unwind.readers.formats import reader_of
from unwind.readers.source import Source

REPEATS = 3
PEER_FDE_COUNT = 1000  # pyelftools takes thirty times as long
WORK = "import json\nfor _ in range(40): json.dumps([{'key': list(range(9))}] * 9000, indent=1)\n"


def rows(image_path: Path) -> dict[str, float]:
    """Return rows per second."""

    def ours() -> int:
        with Image.open(image_path) as image:
            return sum(len(found) for _, _, found in CallFrames(image).rows())

    def theirs() -> int:
        return sum(len(found or ()) for _, _, found in islice(rows_of_elftools(image_path), PEER_FDE_COUNT))

    rates = _rates({"rows": ours, "pyelftools_rows": theirs})
    return {"row_count": ours(), **rates}


def walk(folder: Path) -> dict[str, float]:
    """Return frames per second, the reading of the file included."""
    perf, data = find("perf"), folder / "perf.data"
    if perf is None:
        return {}
    how = ("-q", "-e", "cpu-clock:u", "-F", "997", "--call-graph", "dwarf")
    command = [perf, "record", *how, "-o", str(data), "--", sys.executable, "-c", WORK]
    if subprocess.run(command, capture_output=True).returncode:
        return {}

    def ours() -> int:
        with Source.open(str(data)) as source:
            return sum(len(sample.frames) for sample in reader_of("perf").read(source))

    def theirs() -> int:
        script = [perf, "script", "--no-inline", "-F", "ip", "-i", str(data)]
        return len(subprocess.run(script, capture_output=True, check=True).stdout.split())

    return {"recording_mb": data.stat().st_size / 1e6, **_rates({"frames": ours, "perf_frames": theirs})}


def _rates(works: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Return what each counts per second of processor time, by turns; the first turn is for nothing."""
    best = dict.fromkeys(works, 0.0)
    for turn in range(REPEATS + 1):
        for name, work in works.items():
            begin_s = _processor_s()
            rate = work() / (_processor_s() - begin_s)
            if turn:
                best[name] = max(best[name], rate)
    return {f"{name}_per_s": rate for name, rate in best.items()}


def _processor_s() -> float:
    """Return what this process and those that it has run took so far."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    print(json.dumps((rows if sys.argv[1] == "rows" else walk)(Path(sys.argv[2]))))
