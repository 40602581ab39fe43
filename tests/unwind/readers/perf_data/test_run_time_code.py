"""Perf maps of recorded processes: here, and in containers."""

from __future__ import annotations

import os
import time
from pathlib import Path

from unwind.process.proc_files import innermost_pid
from unwind.process.roots import Roots
from unwind.readers.perf_data.run_time_code import RunTimeCode

START = 0x7F0000001000


class Container(Roots):
    """Processes that see a directory as their root directory."""

    def __init__(self, root: Path) -> None:
        super().__init__({})
        self._root_path = str(root)

    def of(self, pid: int) -> str:
        return self._root_path


def written(root: Path) -> Path:
    """Write the map of this process below a directory; return its path."""
    number = innermost_pid(Path("/proc/self/status").read_bytes(), os.getpid())
    path = root / "tmp" / f"perf-{number}.map"
    path.parent.mkdir(parents=True)
    path.write_text(f"{START:x} 10 f\n")
    return path


def test_the_map_of_a_container(tmp_path: Path) -> None:
    path = written(tmp_path)
    code = RunTimeCode(True, 0, Container(tmp_path))
    assert [code.name(os.getpid(), 0, START + at) for at in (0, 15, 16)] == ["f", "f", ""]
    assert RunTimeCode(False, 0, Container(tmp_path)).name(os.getpid(), 0, START) == ""  # of another machine
    assert RunTimeCode(True, 0, Roots({})).name(os.getpid(), 0, START) == ""  # not in our /tmp
    os.utime(path, (1, 1))
    began_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert RunTimeCode(True, began_ns, Container(tmp_path)).name(os.getpid(), 0, START) == ""  # written before it


def test_a_process_of_a_container_that_has_ended(tmp_path: Path) -> None:
    written(tmp_path)
    gone = os.fork()
    if not gone:
        os._exit(0)
    os.waitpid(gone, 0)
    assert RunTimeCode(True, 0, Container(tmp_path)).name(gone, 0, START) == ""


def test_numbers_in_containers() -> None:
    assert innermost_pid(b"Name:\tx\nNStgid:\t4711\t17\t3\n", 4711) == 3
    assert innermost_pid(b"Name:\tx\n", 4711) == 4711  # before Linux 4.1
