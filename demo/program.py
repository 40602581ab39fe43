"""The demo's program, its stacks, and the truth about them.

The program is compiled once and linked twice. Folding happens in the linker, so both links hold the same
code and differ only in addresses: stack k of the one is stack k of the other, frame by frame, and the
symbols of the link without folding say which function each frame truly is.

Where there is no C++ compiler or no linker that folds, the program that testdata holds is taken instead.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKED_IN = HERE.parent / "testdata" / "shop"
SOURCES = ("main.cpp", "orders.cpp", "payments.cpp", "sessions.cpp", "sampler.cpp")
HEADERS = ("list.h", "orders.h", "payments.h", "sessions.h")
COMPILE = ("g++", "-O2", "-g", "-ffunction-sections")


@dataclass(frozen=True, slots=True)
class Recording:
    """A program and what it printed: each stack as text, and its frames' true linkage names."""

    image: Path
    stacks: tuple[str, ...]
    truth: tuple[tuple[str | None, ...], ...]  # None for a frame outside of the program


def can_build() -> bool:
    """True if there is a C++ compiler and a linker that folds."""
    return all(shutil.which(tool) for tool in ("g++", "ld.gold", "nm"))


def build(folder: Path, run: Callable[[Sequence[str]], str]) -> Recording:
    """Compile once, link with and without folding, record the stacks of both; `run` runs a command in `folder`."""
    for name in (*SOURCES, *HEADERS):
        shutil.copy(HERE / name, folder)
    objects = [source.replace(".cpp", ".o") for source in SOURCES]
    run([*COMPILE, "-c", *SOURCES])
    run(["g++", "-fuse-ld=gold", "-Wl,--icf=all", "-o", "shop", *objects])
    run(["g++", "-fuse-ld=gold", "-Wl,--icf=none", "-o", "shop.unfolded", *objects])
    stacks = stacks_of(folder / "shop")
    truth = [true_names(folder / "shop.unfolded", stack) for stack in stacks_of(folder / "shop.unfolded")]
    return Recording(folder / "shop", stacks, tuple(truth))


def checked_in() -> Recording:
    """The recording that testdata holds."""
    recorded = [json.loads(line) for line in (CHECKED_IN / "shop.gold.json").read_text().splitlines()]
    return Recording(
        CHECKED_IN / "shop.gold",
        tuple(stack["stack"] for stack in recorded),
        tuple(tuple(stack["truth"]) for stack in recorded),
    )


def stacks_of(program: Path) -> tuple[str, ...]:
    """Run the program; it prints the stack of each allocation it makes."""
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    return tuple(done.stdout.splitlines())


def frames_of(stack: str) -> list[int | None]:
    """The addresses of one line of stacks."""
    return [None if frame == "?" else int(frame, 16) for frame in stack.partition("#")[0].split()]


def true_names(unfolded: Path, stack: str) -> tuple[str | None, ...]:
    """The function of each frame, by the symbols of a link in which every address has one function."""
    nm = subprocess.run(["nm", "--defined-only", unfolded], capture_output=True, text=True, check=True)
    rows = (line.split(maxsplit=2) for line in nm.stdout.splitlines())
    symbols = sorted((int(value, 16), name) for value, kind, name in rows if kind in "TtWw")
    values = [value for value, _ in symbols]
    return tuple(
        None if vaddr is None else symbols[bisect_right(values, vaddr - 1) - 1][1] for vaddr in frames_of(stack)
    )
