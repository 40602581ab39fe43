"""Running a command and knowing its wall time, processor time and peak memory.

Figures on a busy machine drift over seconds, so commands that are compared run in turns (a b a b ...) and the medians
are compared. One turn that is not counted warms the page cache.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class CommandFailed(Exception):
    """A measured command did not succeed; the text is its last words."""


@dataclass(frozen=True, slots=True)
class Cost:
    wall_s: float
    cpu_s: float
    peak_mb: float  # MB of 1,000,000 bytes, as all sizes here


# A new process begins with the memory of the one that starts it, as the kernel counts: so a small one does.
_STARTER = """
import os, sys, time
begin_s = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, 1, 0)])
_, status, usage = os.wait4(pid, 0)
wall_s = time.perf_counter() - begin_s
print(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(status != 0)
"""


def run(command: Sequence[str], asked: Path = Path(os.devnull)) -> Cost:
    """Run once; time and memory of this command alone. On its standard input it finds what is in `asked`."""
    starter = [sys.executable, "-I", "-S", "-c", _STARTER, *command]
    with asked.open("rb") as stdin:
        done = subprocess.run(starter, stdin=stdin, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise CommandFailed(f"{command[0]}: {lines[-1] if lines else 'failed'}")
    wall_s, cpu_s, peak_kib = map(float, done.stdout.split())
    return Cost(wall_s, cpu_s, peak_kib * 1024 / 1e6)


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.cpu_s for cost in costs),
        max(cost.peak_mb for cost in costs),
    )


def run_in_turns(
    commands: Mapping[str, Sequence[str]], turn_count: int, measure: Callable[[Sequence[str]], Cost] = run
) -> dict[str, Cost]:
    """Median cost of each command; memory is the highest seen."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(turn_count + 1):
        for name, command in commands.items():
            cost = measure(command)
            if turn:
                costs[name].append(cost)
    return {name: median(each) for name, each in costs.items()}


def warm(path: Path) -> None:
    """Bring a file into the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
