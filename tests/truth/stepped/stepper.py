"""Running a program under the stepper (`stepper.c`), and what it wrote."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.support.toolchain import run
from tests.truth.programs import find
from tests.truth.symbols import FunctionTable

SOURCE = Path(__file__).with_name("stepper.c")
RUN_TIMEOUT_S = 60
MAGIC = 0x72657070657473
HEADER = struct.Struct("<QQQQIII")
NODE = np.dtype([("address", "<u8"), ("entered_from", "<u8"), ("parent", "<u4"), ("kind", "<u4")])
MAX_NODES, MAX_STEPS = 1 << 20, 1 << 22
NODES_AT = 4096
STEPS_AT = NODES_AT + MAX_NODES * NODE.itemsize
OBJECTS_AT = STEPS_AT + MAX_STEPS * 4
EXACT = 1


class RunError(Exception):
    """A program did not run as it should; the text says how."""


@dataclass(frozen=True)
class Recording:
    """What the stepper wrote; addresses are run-time ones."""

    bias: int
    text_low: int
    text_high: int
    nodes: npt.NDArray[np.void]
    steps: npt.NDArray[np.uint32]  # node of the innermost frame, for each instruction
    objects: npt.NDArray[np.uint64]
    output: bytes  # what the program printed

    def is_inside(self, address: int) -> bool:
        return self.text_low <= address < self.text_high

    @cached_property
    def frames(self) -> list[tuple[int, int, int, int]]:
        """Address, address of the call or jump that entered its function, parent, kind: by node."""
        return [(int(a), int(b), int(c), int(d)) for a, b, c, d in self.nodes.tolist()]

    @property
    def entries(self) -> Iterator[tuple[int, list[int]]]:
        """Steps at entries of functions, and what the first arguments of the frames' functions point to then."""
        words = self.objects.tolist()
        at = 0
        while at < len(words):
            step, count = words[at] >> 16, words[at] & 0xFFFF
            yield step, words[at + 1 : at + 1 + count]
            at += 1 + count


def build_stepper(folder: Path) -> Path:
    """Compile the stepper once; raises Unavailable."""
    library = folder / "stepper.so"
    if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / "stepper.new.so"
        command = [find("gcc"), "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-o", str(fresh), str(SOURCE)]
        run(*command)
        fresh.replace(library)
    return library


def record(stepper: Path, image: Path, functions: FunctionTable, work: Path, signal_every: int = 0) -> Recording:
    """Run `image` to its end without randomised addresses; raises RunError."""
    starts, out = work / "starts", work / "stepped"
    np.array(sorted(functions.keys_at), dtype="<u8").tofile(starts)
    settings = {
        "STEPPER_STARTS": str(starts),
        "STEPPER_OUT": str(out),
        "STEPPER_EVERY": str(signal_every),
        "LD_BIND_NOW": "1",
        "LD_PRELOAD": str(stepper),
    }
    words = [f"{name}={value}" for name, value in settings.items()]
    command = [find("setarch"), "-R", find("env"), "-i", *words, str(image)]
    done = subprocess.run(command, cwd=work, capture_output=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode:
        raise RunError(f"{image.name}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()[-300:]}")
    recording = _read(out, done.stdout)
    out.unlink()
    return recording


def _read(path: Path, output: bytes) -> Recording:
    data = np.memmap(path, mode="r")
    magic, bias, low, high, node_count, step_count, object_count = HEADER.unpack(data[: HEADER.size].tobytes())
    if magic != MAGIC or step_count == 0:
        raise RunError(f"{path}: the stepper wrote nothing; is it a dynamic executable?")
    nodes = data[NODES_AT : NODES_AT + node_count * NODE.itemsize].view(NODE).copy()
    steps = data[STEPS_AT : STEPS_AT + step_count * 4].view("<u4").copy()
    objects = data[OBJECTS_AT : OBJECTS_AT + object_count * 8].view("<u8").copy()
    return Recording(bias, low, high, nodes, steps, objects, output)
