"""Perf maps and jitdumps as CPython and node write them, of processes that still run."""

from __future__ import annotations

import glob
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.toolchain import find, tool
from unwind.target.live_symbolizer import open_process

PYTHON = """
import sys
def warm_function(n):
    return sum(range(n))
warm_function(3)
print("ready", flush=True)
sys.stdin.read()
"""
SCRIPT = """
function hotFunction(count) { let sum = 0; for (let i = 0; i < count; i++) sum += i % 7; return sum; }
let total = 0;
for (let i = 0; i < 3000; i++) total += hotFunction(1000);
console.log("ready");
process.stdin.resume();
"""


def python(version: str) -> str:
    """A CPython of that version, by itself or as pyenv has it."""
    pattern = os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python{version}")
    for path in (find(f"python{version}"), *glob.glob(pattern)):
        if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    pytest.skip(f"needs Python {version}")


@contextmanager
def ready(*command: str, folder: Path) -> Iterator[int]:
    """Run it until it says that it is ready; its number."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()
            process.wait()
            for name in (f"perf-{process.pid}.map", f"jit-{process.pid}.dump"):
                Path("/tmp", name).unlink(missing_ok=True)


def entries(pid: int) -> list[tuple[int, int, str]]:
    """What the process's perf map has."""
    lines = Path(f"/tmp/perf-{pid}.map").read_text().splitlines()
    return [(int(start, 16), int(size, 16), name) for start, size, name in (line.split(" ", 2) for line in lines)]


def loads(path: Path) -> list[tuple[int, int, str]]:
    """What a jitdump has, by a simpler reader."""
    content, at, found = path.read_bytes(), 40, []
    while at < len(content):
        kind, size_bytes = (int.from_bytes(content[at + i : at + i + 4], "little") for i in (0, 4))
        if at + size_bytes > len(content):
            break  # CPython writes whole buffers
        if kind == 0:
            start, code_bytes = (int.from_bytes(content[at + i : at + i + 8], "little") for i in (32, 40))
            found.append((start, code_bytes, content[at + 56 : content.index(0, at + 56)].decode()))
        at += size_bytes
    return found


def test_cpython_writes_a_perf_map(tmp_path: Path) -> None:
    (tmp_path / "warm.py").write_text(PYTHON)
    with ready(python("3.12"), "-X", "perf", "warm.py", folder=tmp_path) as pid, open_process(pid) as symbolizer:
        for start, size_bytes, name in entries(pid):
            frame = symbolizer.symbolize(start + size_bytes - 1)
            assert (frame.name, frame.start, frame.size_bytes) == (name, start, size_bytes)
        assert any("py::warm_function:" in name for _, _, name in entries(pid))


def test_cpython_writes_a_jitdump(tmp_path: Path) -> None:
    (tmp_path / "warm.py").write_text(PYTHON)
    with ready(python("3.13"), "-X", "perf_jit", "warm.py", folder=tmp_path) as pid, open_process(pid) as symbolizer:
        found = loads(Path(f"/tmp/jit-{pid}.dump"))
        assert len(found) > 10 and all(name.startswith("py::") for _, _, name in found)
        for start, size_bytes, name in found:
            frame = symbolizer.symbolize(start + size_bytes - 1)
            assert (frame.name, frame.start) == (name, start)


def test_node_writes_both(tmp_path: Path) -> None:
    node = tool("node")
    (tmp_path / "hot.js").write_text(SCRIPT)
    options = ("--perf-basic-prof", "--perf-prof", "--interpreted-frames-native-stack")
    with ready(node, *options, "hot.js", folder=tmp_path) as pid, open_process(pid) as symbolizer:
        dumped = loads(tmp_path / f"jit-{pid}.dump")
        assert any("hotFunction" in name for _, _, name in dumped)
        named = set()
        for start, name in {start: name for start, _, name in dumped}.items():
            if symbolizer.live.where(start).module is None:  # node lists functions of its own image as well
                frame = symbolizer.symbolize(start)
                if frame.frames:  # else the memory has been given back
                    assert frame.linkage_name == name
                    named.add(name)
        assert any("hotFunction" in name for name in named)
