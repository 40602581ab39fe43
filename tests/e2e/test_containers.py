"""Recordings of processes that see other files than we do: each file is the one that was mapped, or none."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from icf.cli import main
from icf.elf.image import Image
from tests.support import perf_data as p
from tests.support.toolchain import lasting_folder, run, tool
from unwind.process.maps import Mapping, parse_maps

PROGRAM = """
#include <stdio.h>
__attribute__((noinline)) void inner(void) { puts("ready"); fflush(stdout); getchar(); }
int main() { inner(); return 0; }
"""
HIDDEN = "/mnt"
INTO_NAMESPACE = f"mount -t tmpfs none {HIDDEN} && cp {{program}} {HIDDEN}/program && exec {HIDDEN}/program"
INTO_ROOT = "exec chroot {folder} /program"


class Running(NamedTuple):
    """A process, where its code is, and where `inner` is."""

    pid: int
    code: Mapping
    inner: int


@pytest.fixture(scope="module")
def program() -> Path:
    folder = lasting_folder()
    (folder / "program.c").write_text(PROGRAM)
    run(tool("gcc"), "-static", "-no-pie", "-O1", "-Wl,--build-id", folder / "program.c", "-o", folder / "program")
    return folder / "program"


@pytest.fixture(params=[INTO_NAMESPACE, INTO_ROOT])
def running(program: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    command = str(request.param).format(program=program, folder=program.parent)
    shell = [tool("unshare"), "-rm", "sh", "-c", command]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                pytest.skip("may not make a mount namespace here")
            maps = parse_maps(Path(f"/proc/{process.pid}/maps").read_bytes(), "maps")
            (code,) = (each for each in maps if each.is_of_file and each.is_executable)
            with Image.open(str(program)) as image:
                (inner,) = (row for row in range(len(image.symbols)) if image.symbols.name(row) == "inner")
                yield Running(process.pid, code, int(image.symbols.value[inner]))
        finally:
            process.kill()


def resolved(running: Running, path: Path, build_id: bytes = b"", file_id: tuple[int, int] = (0, 0)) -> str | None:
    """Return the name of the frame of a recording of `inner`."""
    code = running.code
    mapping = p.mmap2(
        running.pid, code.start, code.end - code.start, code.path, 1, code.offset, build_id, file_id=file_id
    )
    path.write_bytes(p.perf_data(mapping + p.sample(running.pid, 2, p.CONTEXT_USER, running.inner)))
    main(["resolve", str(path), "--out", "json", "-o", f"{path}.json", "--cache-dir", f"{path}.cache"])
    (frame,) = json.loads(Path(f"{path}.json").read_text())["frames"]
    return str(frame["name"]) if frame["name"] is not None else None


def test_the_file_of_a_container_is_found(running: Running, program: Path, tmp_path: Path) -> None:
    with Image.open(str(program)) as image:
        build_id = image.build_id
    assert resolved(running, tmp_path / "by_id", build_id) == "inner"
    assert resolved(running, tmp_path / "by_inode", file_id=running.code.file_id) == "inner"


def test_another_file_is_not_taken(running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    device, inode = running.code.file_id
    with caplog.at_level(logging.WARNING, "icf"):
        assert resolved(running, tmp_path / "a", bytes(range(20))) is None
        assert resolved(running, tmp_path / "b", file_id=(device, inode + 1)) is None
        assert resolved(running, tmp_path / "c") is None
    ends = [record.getMessage().partition("/program: ")[2] for record in caplog.records]
    assert [end.rpartition(": ")[2] for end in ends] == ["1 distinct frame is unknown"] * 3
    assert "has build id " in ends[0] and "is another file than the one that was mapped" in ends[1]
    assert "nothing that was recorded shows" in ends[2]
