"""Running a program under the sampler (`sampler.c`) and reading what it wrote."""

from __future__ import annotations

import os
import subprocess
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("sampler.c")
TICK_ENTRY = 4
RUN_TIMEOUT_S = 900


class Module(NamedTuple):
    bias: int
    low: int
    high: int
    path: str


class Sample(NamedTuple):
    tick: int
    history: int  # hash of everything counted up to here
    what: int
    detail: int
    is_exact: bool  # the first address is a program counter, not a return address
    vptr: int
    addresses: tuple[int, ...]  # run-time, innermost first


@dataclass
class Recording:
    modules: list[Module] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    tick_count: int = 0
    is_complete: bool = False

    def __post_init__(self) -> None:
        self._sorted: list[Module] = []

    def module_of(self, address: int) -> Module | None:
        if not self._sorted:
            self._sorted = sorted(self.modules, key=lambda module: module.low)
        row = bisect_right(self._sorted, address, key=lambda module: module.low) - 1
        if row < 0 or address >= self._sorted[row].high:
            return None
        return self._sorted[row]


@dataclass(frozen=True)
class Sampling:
    """When to sample; `entries` needs a list of breakpoints."""

    gap: int = 200
    steps: int = 0
    sample_max: int = 20000
    first: int = 40
    limit: int = 700


def build_sampler(cache: Path) -> Path:
    """Compile the sampler once."""
    library = cache / "sampler.so"
    if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
        cache.mkdir(parents=True, exist_ok=True)
        command = ["gcc", "-O2", "-Wall", "-fPIC", "-shared", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True)
    return library


def record(
    library: Path,
    image: Path,
    arguments: Sequence[str],
    out: Path,
    sampling: Sampling,
    breaks: Path | None = None,
    folder: Path | None = None,
) -> Recording:
    """Run `image` once under the sampler; same environment and argument 0 for every image."""
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LC_ALL": "C",
        "LD_BIND_NOW": "1",
        "LD_PRELOAD": str(library.resolve()),
        "SAMPLER_OUT": str(out.resolve()),
        "SAMPLER_GAP": str(sampling.gap),
        "SAMPLER_STEPS": str(sampling.steps),
        "SAMPLER_MAX": str(sampling.sample_max),
        "SAMPLER_FIRST": str(sampling.first),
        "SAMPLER_LIMIT": str(sampling.limit),
    }
    if breaks is not None:
        environment["SAMPLER_BREAKS"] = str(breaks.resolve())
    out.unlink(missing_ok=True)
    subprocess.run(
        ["program", *arguments],
        executable=str(image.resolve()),
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    if not out.exists():
        raise SystemExit(f"{image}: the sampler wrote nothing; is it a dynamic executable?")
    return read_recording(out)


def read_recording(path: Path) -> Recording:
    """Parse the sampler's text; a line that the end cut off is left out."""
    recording = Recording()
    modules: dict[Module, None] = {}
    with path.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                break
            kind, *words = line.split()
            if kind == "M":
                bias, low, high = (int(word, 16) for word in words[:3])
                modules[Module(bias, low, high, " ".join(words[3:]))] = None
            elif kind == "S":
                numbers = [int(word, 16) for word in words]
                tick, history, what, detail, _steps, is_exact, vptr = numbers[:7]
                recording.samples.append(Sample(tick, history, what, detail, bool(is_exact), vptr, tuple(numbers[7:])))
            elif kind == "E":
                recording.tick_count = int(words[0], 16)
                recording.is_complete = True
    recording.modules = list(modules)
    return recording
