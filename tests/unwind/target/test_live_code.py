"""Code of processes that run, and of this one: made at run time, and of images."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import unwind
from icf.cli import main
from icf.errors import IcfError
from tests.support.toolchain import tool

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the code that is made here is x86-64's")

# push rbp; mov rbp, rsp; mov edi, 7; call [rip + 3]; pop rbp; ret; nop; and the pool
CODE = b"\x55\x48\x89\xe5\xbf\x07\0\0\0\xff\x15\x03\0\0\0\x5d\xc3\x90"
MAKER = textwrap.dedent(
    f"""
    import ctypes, mmap, os, struct, sys
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    callee = ctypes.cast(ctypes.pythonapi.PyLong_FromLong, ctypes.c_void_p).value
    code = {CODE!r} + struct.pack("<Q", callee)
    memory[: len(code)] = code
    with open(f"/tmp/perf-{{os.getpid()}}.map", "w") as file:
        file.write(f"{{address:x}} {{len(code):x}} py::seven\\n")
    print(hex(address), ctypes.CFUNCTYPE(ctypes.py_object)(address)(), flush=True)
    sys.stdin.readline()
    os.unlink(f"/tmp/perf-{{os.getpid()}}.map")
    """
)
SLEEPER = """#include <stdio.h>
__attribute__((noinline)) int twice(int x) { return 2 * x; }
int main(int argc, char **argv) { volatile int y = twice(argc); puts("ready"); fflush(stdout); for (;;) getchar(); }
"""


class Made(NamedTuple):
    """A process that has made a function, and run it."""

    pid: str
    address: str


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    with subprocess.Popen(
        [sys.executable, "-c", MAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address, seven = process.stdout.readline().split()
        assert seven == "7"  # it runs
        yield Made(str(process.pid), address)
        process.communicate("\n", timeout=20)


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["disasm", *arguments]) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_function_made_at_run_time(
    made: Made, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path))
    by_name = lines(capsys, "--pid", made.pid, "-M", "att", "py::seven")
    start, pool = int(made.address, 16), int(made.address, 16) + len(CODE)
    assert by_name[0] == f"{start:#x}..{pool + 8:#x}, 26 bytes: py::seven (made at run time)"
    assert f"{start + 9:x}: callq *3(%rip) # {pool:#x} -> PyLong_FromLong" in by_name
    assert by_name[-1].startswith(f"{pool:x}: .quad 0x") and by_name[-1].endswith("# PyLong_FromLong")
    assert lines(capsys, "--pid", made.pid, "-M", "att", hex(start + 4)) == by_name
    (region, *instructions) = map(json.loads, lines(capsys, "--pid", made.pid, "--json", made.address))
    assert region["region"]["made_at_run_time"] == "py::seven"
    (call,) = [each for each in instructions if each["mnemonic"] == "call"]
    assert call["address"] == hex(start + 9)
    assert call["notes"][0]["target"]["meanings"][0]["callees"] == ["PyLong_FromLong"]


def test_a_function_of_an_image_at_its_address_in_the_process(
    made: Made, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path))
    callee = lines(capsys, "--pid", made.pid, "py::seven")[-1].split()[2]  # of the pool
    by_address = lines(capsys, "--pid", made.pid, callee)
    assert by_address[0].startswith(f"{callee}..") and by_address[0].endswith(": PyLong_FromLong")
    assert by_address[2].startswith(f"{int(callee, 16):x}: ")
    assert lines(capsys, "--pid", made.pid, "PyLong_FromLong") == by_address


def test_source_lines_of_a_running_program(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tool("cc")
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "p.c").write_text(SLEEPER)
    subprocess.run([compiler, "-g", "-O1", "-o", tmp_path / "p", tmp_path / "p.c"], check=True, timeout=60)
    with subprocess.Popen([tmp_path / "p"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        found = lines(capsys, "--pid", str(process.pid), "-S", "twice")
        process.kill()
    assert f"{tmp_path}/p.c:2: __attribute__((noinline)) int twice(int x) {{ return 2 * x; }}" in found
    assert found[0].startswith("0x") and found[0].endswith(": twice")


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("py::eight", "no function 'py::eight'"),
        ("0x10", "nothing is mapped at 0x10"),
        ("0x20..0x10", "the range ends where it starts, or before"),
        ("0x10..0x20", "no memory can be read at 0x10"),
    ],
)
def test_what_is_not_there(made: Made, what: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["disasm", "--pid", made.pid, what]) == 1
    assert problem in capsys.readouterr().err


def test_code_that_this_process_has_made(tmp_path: Path) -> None:
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    callee = ctypes.cast(ctypes.pythonapi.PyLong_FromLong, ctypes.c_void_p).value
    assert callee is not None
    memory[: len(CODE) + 8] = CODE + struct.pack("<Q", callee)
    with unwind.open_process(cache_dir=str(tmp_path)) as symbolizer:
        text = unwind.annotate(CODE, address, symbolizer, name="seven")
        with pytest.raises(IcfError, match="do not fit the address space"):
            unwind.annotate(CODE, (1 << 64) - 1, symbolizer)
    found = [" ".join(line.split()) for line in text.splitlines()]
    assert found[0] == f"{address:#x}..{address + len(CODE):#x}, 18 bytes: seven (made at run time)"
    assert f"{address + 9:x}: callq *3(%rip) # {address + len(CODE):#x} -> PyLong_FromLong" in found
