"""The tools that tests compile and link with: found once, run with a timeout; where one is missing the test skips.

A tool is called by its plain name (`clang++`, `ld.lld`, `llvm-symbolizer`), and found under the version that the
project is tested with before any other. `link` and `linker_options` take the short name of a linker: one of LINKERS.
Objects are compiled once for each set of flags and kept for the session; a link is a fresh file in the caller's
directory.
"""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

LINKERS = ("bfd", "gold", "lld", "mold")
TIMEOUT_S = 300
_LLVM_VERSION = 19
_OF_LLVM = re.compile(
    r"clang(\+\+)?|ld\.lld|lld-link|lldb|llvm-[a-z0-9]+"
)  # Debian installs these with a version in their names
_COMPILERS = {"x86_64": "clang++", "aarch64": "aarch64-linux-gnu-g++"}


@cache
def find(name: str) -> str | None:
    """The path of a tool, None where it is missing."""
    names = [f"{name}-{_LLVM_VERSION}", name] if _OF_LLVM.fullmatch(name) else [name]
    if name == "ld.mold":
        names.append("mold")
    return next((path for each in names if (path := shutil.which(each))), None)


def tool(*names: str) -> str:
    """The path of the first of these tools that exists; skips the test if none does."""
    import pytest  # here, because the benchmarks measure memory and need none of it

    path = next((path for name in names if (path := find(name))), None)
    return path or pytest.skip(f"needs {' or '.join(names)}")


def run(*command: str | Path, check: bool = True, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, output captured; its stderr is the message of a failure."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
    assert not check or done.returncode == 0, f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done


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
    run(tool(_COMPILERS[arch]), *flags, "-c", path, "-o", path.with_suffix(".o"))
    return path.with_suffix(".o")


@cache
def linker_options(linker: str, path: str) -> tuple[str, str]:
    """What makes gcc or clang link with the linker at `path`: they look for `ld.LINKER` in a folder of ours first."""
    folder = lasting_folder()
    (folder / f"ld.{linker}").symlink_to(path)
    return f"-fuse-ld={linker}", f"-B{folder}"


def link(out: Path, linker: str, *inputs: str | Path, arch: str = "x86_64") -> Path:
    """Link `inputs` (objects and flags of the compiler driver) with one of LINKERS into `out`."""
    driver, path = [tool(_COMPILERS[arch])], ""
    if arch == "aarch64" and linker in ("bfd", "gold"):
        path = tool(f"aarch64-linux-gnu-ld.{linker}")
    elif arch == "aarch64":  # the others link for any machine, with the libraries of the compiler above
        driver = [tool("clang++"), "--target=aarch64-linux-gnu"]
    run(*driver, *linker_options(linker, path or tool(f"ld.{linker}")), *inputs, "-o", out)
    return out
