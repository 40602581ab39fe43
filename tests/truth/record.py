"""Running a program under the sampler (`sampler.c`) and reading what it wrote."""

from __future__ import annotations

import os
import subprocess
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support.toolchain import run
from tests.truth.programs import find

SOURCE = Path(__file__).with_name("sampler.c")
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
    addresses: tuple[int, ...]  # run-time, innermost first
    objects: tuple[tuple[int, int, int, int], ...]  # depth, entry of the function, what its arguments point to

    def is_like(self, other: Sample) -> bool:
        """Whether both were taken at the same event of two runs that did the same up to it."""
        return self[:5] == other[:5]


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


@dataclass(frozen=True)
class Machine:
    """What compiles the sampler for a machine, and what runs programs of it here."""

    compiler: str
    emulator: tuple[str, ...] = ()

    @property
    def has_traps(self) -> bool:
        """Whether entries and single steps can be sampled: the sampler knows x86-64 so well, others not."""
        return not self.emulator


NATIVE = Machine("gcc")
AARCH64 = Machine("aarch64-linux-gnu-gcc", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"))


def build_sampler(cache: Path, machine: Machine = NATIVE) -> Path:
    """Compile the sampler once; raises Unavailable."""
    for tool in (machine.compiler, *machine.emulator[:1]):
        find(tool)
    library = cache / f"sampler.{machine.compiler}.so"
    if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
        cache.mkdir(parents=True, exist_ok=True)
        new = library.with_suffix(f".{os.getpid()}")  # another process may be about to load the old one
        run(machine.compiler, "-O2", "-Wall", "-fPIC", "-shared", "-o", str(new), str(SOURCE))
        new.replace(library)
    return library


@dataclass(frozen=True)
class Sampler:
    """The sampler's library and the machine it is for."""

    library: Path
    machine: Machine = NATIVE

    def record(
        self,
        image: Path,
        arguments: Sequence[str],
        out: Path,
        sampling: Sampling,
        breaks: Path | None = None,
        folder: Path | None = None,
    ) -> Recording:
        """Run `image` once; same environment and argument 0 for every image."""
        asked = {
            "LD_PRELOAD": str(self.library.resolve()),
            "SAMPLER_OUT": str(out.resolve()),
            "SAMPLER_GAP": str(sampling.gap),
            "SAMPLER_STEPS": str(sampling.steps),
            "SAMPLER_MAX": str(sampling.sample_max),
            "SAMPLER_FIRST": str(sampling.first),
            "SAMPLER_LIMIT": str(sampling.limit),
        }
        if breaks is not None:
            asked["SAMPLER_BREAKS"] = str(breaks.resolve())
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "LD_BIND_NOW": "1"}
        command = ["program", *arguments]
        executable = str(image.resolve())
        if emulator := self.machine.emulator:  # the library is for the program, not for the emulator
            options = [word for name, value in asked.items() for word in ("-E", f"{name}={value}")]
            command = [*emulator, "-0", "program", *options, executable, *arguments]
            executable = find(emulator[0])
        else:
            environment |= asked
        out.unlink(missing_ok=True)
        subprocess.run(
            command,
            executable=executable,
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
                tick, history, what, detail, _steps, is_exact = (int(word, 16) for word in words[:6])
                frames = [[int(part, 16) for part in word.split(":")] for word in words[6:]]
                addresses = tuple(frame[0] for frame in frames)
                objects = tuple(
                    (row, frame[1], frame[2], frame[3]) for row, frame in enumerate(frames) if len(frame) == 4
                )
                recording.samples.append(Sample(tick, history, what, detail, bool(is_exact), addresses, objects))
            elif kind == "E":
                recording.tick_count = int(words[0], 16)
                recording.is_complete = True
    recording.modules = list(modules)
    return recording
