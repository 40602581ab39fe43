"""Where processes in other mount namespaces, or with another root directory, have their files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unwind.process.roots import Roots

Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a command that says when it is ready; return its number."""
    started: list[subprocess.Popen[str]] = []

    def run(*command: str) -> int:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            pytest.skip(f"may not run {command[0]}")
        return process.pid

    yield run
    for process in started:
        process.kill()
        process.communicate()


def mounts_of(pid: int) -> int:
    return os.stat(f"/proc/{pid}/ns/mnt").st_ino


def test_a_process_that_sees_what_we_see(start: Start) -> None:
    pid = start("sh", "-c", "echo ready; read x")
    assert Roots({}).of(pid) == Roots({pid: mounts_of(pid)}).of(pid) == ""


def test_a_process_in_another_mount_namespace(start: Start) -> None:
    pid = start("unshare", "-rm", "sh", "-c", "echo ready; read x")
    assert Roots({}).of(pid) == f"/proc/{pid}/root"
    gone = subprocess.Popen(["true"])
    gone.wait()
    roots = Roots({gone.pid: mounts_of(pid), gone.pid + 1: 1})
    assert roots.of(gone.pid) == f"/proc/{pid}/root"  # that of another process there
    assert roots.of(gone.pid + 1) == f"/proc/{gone.pid + 1}/root"  # none is left: no path of ours stands for it
    assert Roots({}).of(gone.pid) == ""


def test_processes_of_one_namespace_have_one_root(start: Start) -> None:
    pid = start("unshare", "-rm", "sh", "-c", "sleep 5 & echo ready; read x")
    child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    roots = Roots({})
    assert roots.of(pid) == roots.of(child) == f"/proc/{pid}/root"
