"""Runs `host.cpp`: a process that loads, unloads and makes code as it is told."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.toolchain import compile_object, link

SOURCE = Path(__file__).with_name("host.cpp").read_text()
LIBRARY = """
    extern "C" __attribute__((noinline)) int NAME(int value) { return value * FACTOR; }
    static __attribute__((noinline, used)) int NAME_inside(int value) { return value + FACTOR; }
"""


class Host:
    """A running one; what it says first is where things are."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid
        self.arena, self.inner, self.outer, self.clock_gettime = self._answer()

    def ask(self, line: str) -> list[int]:
        """Have it do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> list[int]:
        assert self._process.stdout is not None
        return [0 if word == "(nil)" else int(word, 16) for word in self._process.stdout.readline().split()]


class Loaded(NamedTuple):
    """A library that was loaded."""

    bias: int
    address: int  # of its function


def build_host(path: Path, *flags: str, linker: str = "lld") -> Path:
    """The program, with those flags of the compiler driver."""
    position = () if "-no-pie" in flags else ("-fPIE",)
    return link(path, linker, compile_object(SOURCE, "-O1", *position), "-rdynamic", *flags)


def build_library(path: Path, name: str, factor: int = 3, *flags: str, linker: str = "lld") -> Path:
    """A shared object with a function of that name."""
    source = LIBRARY.replace("NAME", name).replace("FACTOR", str(factor))
    return link(path, linker, compile_object(source, "-O1", "-fPIC"), "-shared", *flags)


@contextmanager
def running(path: Path, user: int | None = None) -> Iterator[Host]:
    """Run it, as another user if so asked."""
    with subprocess.Popen(
        [path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=path.parent,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    ) as process:
        try:
            yield Host(process)
        finally:
            process.kill()
            process.wait()
            map_path = f"/tmp/perf-{process.pid}.map"
            if os.path.exists(map_path):
                os.unlink(map_path)
