"""Recordings of perf: what `icf resolve` costs in each format, beside `perf script` on the same file.

python -m tests.bench.recordings FILE... [--turns N] [--out FORMAT,...]    prints JSON: seconds and MB

Both write to nowhere. `icf resolve` finds the symcaches of the images kept, as at a second recording of a program.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.timing import run_in_turns, warm
from tests.bench.unwinding import WORK
from tests.support import toolchain
from tests.truth.programs import Unavailable, find
from tests.truth.tool import default_command

FORMATS = ("text", "collapsed", "pprof", "perf-script")
PEER = "perf script"


def record(folder: Path) -> Path:
    """Record a Python that works, by frame pointers, into a folder.

    Raises:
        Unavailable: perf is missing, or may not record.
    """
    path = folder / "frame-pointers.data"
    how = ("-q", "-e", "cpu-clock:u", "-F", "4999", "--call-graph", "fp")
    done = subprocess.run(
        [find("perf"), "record", *how, "-o", path, "--", sys.executable, "-c", WORK], capture_output=True
    )
    if done.returncode:
        raise Unavailable("perf may not record")
    return path


def bench_recording(path: Path, formats: Sequence[str], command: Sequence[str], turn_count: int) -> dict[str, Any]:
    """Return what each format costs, and its share of the processor time of `perf script`, if that is there."""
    warm(path)
    commands = {out: [*command, "resolve", str(path), "--out", out, "-o", "/dev/stdout"] for out in formats}
    perf = toolchain.find("perf")
    if perf is not None:
        commands[PEER] = [perf, "script", "-i", str(path)]
    costs = run_in_turns(commands, turn_count)
    figures: dict[str, Any] = {"recording": str(path), "recording_mb": path.stat().st_size / 1e6}
    for name, cost in costs.items():
        figures[name] = {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "peak_mb": cost.peak_mb}
        if perf is not None:
            figures[name]["cpu_of_perf_script"] = cost.cpu_s / costs[PEER].cpu_s
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="tests.bench.recordings", description=__doc__)
    parser.add_argument("recordings", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", default=",".join(FORMATS))
    args = parser.parse_args(arguments)
    for path in args.recordings:
        print(json.dumps(bench_recording(path, args.out.split(","), default_command(), args.turns), indent=1))


if __name__ == "__main__":
    main()
