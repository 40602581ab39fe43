"""Compile and link small programs for tests: one function for each tool, a skip where it is missing.

Objects are compiled once for each set of flags and kept for the session; a link is a fresh file in the
caller's directory.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

LINKERS = ("bfd", "gold", "lld", "mold")
_LINKER_COMMANDS = {
    "bfd": ("ld.bfd",),
    "gold": ("ld.gold",),
    "lld": ("ld.lld-19", "ld.lld"),
    "mold": ("mold",),
}
_COMPILERS = {"x86_64": ("clang++-19", "clang++"), "aarch64": ("aarch64-linux-gnu-g++",)}


@cache
def _find(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


def tool(*names: str) -> str:
    """The path of the first of these tools that exists; skips the test if none does."""
    path = _find(names)
    if path is None:
        pytest.skip(f"needs {' or '.join(names)}")
    return path


def run(*command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command, output captured; its stderr is the message of a failure."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace")
    assert not check or result.returncode == 0, f"{command}: exit {result.returncode}\n{result.stdout}{result.stderr}"
    return result


@cache
def _scratch() -> Path:
    folder = tempfile.mkdtemp(prefix="icf-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def lasting_folder() -> Path:
    """A folder that is there until the end of the run, for what several tests use."""
    return Path(tempfile.mkdtemp(dir=_scratch()))


@cache
def compile_object(source: str, *flags: str, arch: str = "x86_64", suffix: str = ".cpp") -> Path:
    """Compile `source`; the same source and flags give the same file again."""
    directory = lasting_folder()
    path = directory / f"program{suffix}"
    path.write_text(source)
    run(tool(*_COMPILERS[arch]), *flags, "-c", path, "-o", path.with_suffix(".o"))
    return path.with_suffix(".o")


def link(out: Path, linker: str, *inputs: str | Path, arch: str = "x86_64") -> Path:
    """Link `inputs` (objects and flags of the compiler driver) with one of LINKERS into `out`."""
    if arch == "aarch64" and linker in ("bfd", "gold"):
        tool(f"aarch64-linux-gnu-ld.{linker}")
        driver = [tool(*_COMPILERS[arch]), f"-fuse-ld={linker}"]
    elif arch == "aarch64":
        target = ["--target=aarch64-linux-gnu", f"--ld-path={tool(*_LINKER_COMMANDS[linker])}"]
        tool(*_COMPILERS[arch])  # for its libraries
        driver = [tool(*_COMPILERS["x86_64"]), *target]
    else:
        driver = [tool(*_COMPILERS[arch]), f"--ld-path={tool(*_LINKER_COMMANDS[linker])}"]
    run(*driver, *inputs, "-o", out)
    return out
