"""Traces of drmemtrace: all records read, and one instruction found, each in a process of its own.

    python -m tests.bench.traces [--records N] [--turns N]    prints JSON: seconds and MB

The trace is made, of a loop with calls, loads and stores, in chunks of 100,000 instructions. Beside the reading of all
records is the decompression of the same file by Python's zlib, which reads and checks nothing else; beside the seek, a
Python that does nothing. Seeks are measured inside of a process, too, each of a trace that was just opened.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from tests.bench.rows import Figures
from tests.bench.timing import run_in_turns, warm
from tests.support.traces import write_loop
from tests.truth.tool import default_command
from unwind.trace.container import TraceFile
from unwind.trace.reader import TraceReader
from unwind.trace.seek import seek_instruction

CHUNK_SIZE, RECORD_COUNT = 100_000, 20_000_000
_SEEKS = 99
_PER_ROUND = (5, 8)  # instructions and records of a round of the loop, without its rare markers
_UNZIP = """
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as file:
    for name in file.namelist():
        with file.open(name) as part:
            while part.read(1 << 20): pass
"""


def bench_trace(record_count: int, folder: Path, command: Sequence[str], turn_count: int) -> Figures:
    """Return the figures of one made trace."""
    instruction_size, record_size = _PER_ROUND
    rounds = record_count // record_size
    trace = write_loop(folder / "loop.trace.zip", rounds=rounds, chunk_size=CHUNK_SIZE)
    warm(trace)
    last = str(rounds * instruction_size - 10)
    commands = {
        "count": [*command, "trace", "view", "--count", str(trace)],
        "unzip": [sys.executable, "-I", "-S", "-c", _UNZIP, str(trace)],
        "seek": [*command, "trace", "seek", "-n", last, "--limit", "1", str(trace)],
        "python": [sys.executable, "-c", "pass"],
    }
    costs = run_in_turns(commands, turn_count)
    figures: Figures = {"record_count": _records_of(trace, command), "trace_mb": trace.stat().st_size / 1e6}
    for name, cost in costs.items():
        figures |= {f"{name}_wall_s": cost.wall_s, f"{name}_cpu_s": cost.cpu_s, f"{name}_peak_mb": cost.peak_mb}
    return figures | seek_times(trace, rounds * instruction_size)


def seek_times(trace: Path, instruction_count: int) -> Figures:
    """Return the processor time to open a trace and read one of its instructions; imports are not counted."""
    times_ms = []
    random = Random(1)
    for _ in range(_SEEKS):
        number = random.randrange(instruction_count)
        begin_s = time.process_time()
        with TraceFile(str(trace)) as file:
            reader = TraceReader(file)
            seek_instruction(reader, number)
            next(iter(reader.rows()))
        times_ms.append((time.process_time() - begin_s) * 1e3)
    return {"seek_median_ms": median(times_ms), "seek_most_ms": max(times_ms)}


def _records_of(trace: Path, command: Sequence[str]) -> int:
    asked = [*command, "trace", "view", "--count", "--json", str(trace)]
    counted: int = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)["records"]
    return counted


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="tests.bench.traces", description="measure the reader of traces")
    parser.add_argument("--records", type=int, default=RECORD_COUNT)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        print(json.dumps(bench_trace(args.records, Path(folder), default_command(), args.turns), indent=1))


if __name__ == "__main__":
    main()
