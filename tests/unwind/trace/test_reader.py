"""Traces are read: joined with bytes and targets, chunks unseen, kernel parts left out on demand."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import pytest

from icf.errors import FormatError
from tests.fuzz.limits import peak_memory, reset_peak_memory
from tests.support.builds import uncompiled
from tests.support.traces import ALL_ASM, LONG, NOP, START, SYSCALL, read_all, seen_of, write_loop
from unwind.trace import _records, reader
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace.container import TraceFile, trace_files
from unwind.trace.reader import TraceReader
from unwind.trace.writer import TraceWriter

BUILDS = [_records, uncompiled(_records)]


@pytest.fixture(params=BUILDS, ids=["installed", "uncompiled"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(reader, "read", request.param.read)
    return request.param


@pytest.mark.usefixtures("build")
def test_instructions_have_their_bytes_and_targets(tmp_path: Path) -> None:
    seen = read_all(write_loop(tmp_path / "a.trace.zip"))
    assert seen[:5] == [
        (k.INSTRUCTION, 1, 0x401000, LONG, 0),
        (k.DIRECT_CALL, 1, 0x40100A, bytes.fromhex("e803000000"), 0),
        (k.INSTRUCTION, 1, 0x401012, NOP, 0),
        (k.RETURN, 1, 0x401013, b"\xc3", 0x40100F),
        (k.TAKEN_JUMP, 1, 0x40100F, b"\xeb\xef", 0),
    ]
    assert seen[5] == (k.INSTRUCTION, 0, 0x401000, LONG, 0)
    assert seen[20][1] == 1  # repeated at the start of a chunk
    assert [code for _, _, address, code, _ in seen if address == 0x401012] == [NOP] * 25 + [b"\xf8"] * 25


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("name", ["a.trace", "a.trace.gz", "a.trace.zip"])
@pytest.mark.parametrize("version", [1, 4, 7])
def test_all_containers_and_versions_hold_the_same(name: str, version: int, tmp_path: Path) -> None:
    with_bytes = version >= 4
    expected = read_all(write_loop(tmp_path / "whole.trace.zip", chunk_size=1000))
    seen = read_all(write_loop(tmp_path / name, version=version, with_bytes=with_bytes, chunk_size=1000))
    bare = [(kind, 0, address, bytes(len(code)), target) for kind, _, address, code, target in expected]
    assert seen == (expected if with_bytes else bare)


def test_a_real_trace_has_what_its_makers_counted() -> None:
    with TraceFile(str(ALL_ASM)) as file:
        found = TraceReader(file)
        seen = seen_of(found)
        assert file.chunk_count == 7
    state = found.state
    assert (state[c.RECORDS], state[c.INSTRUCTIONS], state[c.VERSION], state[c.CHUNK_SIZE]) == (329, 133, 6, 20)
    for (kind, _, address, code, target), following in zip(seen, seen[1:], strict=False):
        if kind in (k.INSTRUCTION, k.UNTAKEN_JUMP):
            assert following[2] == address + len(code)
        elif kind == k.RETURN:
            assert following[2] == target


def test_a_chunk_is_invisible(tmp_path: Path) -> None:
    def rows(path: Path) -> list[tuple[int, int]]:
        with TraceFile(str(path)) as file:
            found = [
                (rows[row, c.WHAT] & 0xFFFF00FF, rows[row, c.ADDRESS])
                for rows in TraceReader(file, c.KEEP_DATA | c.KEEP_MARKERS | c.KEEP_INSTRUCTIONS).rows()
                for row in range(len(rows))
            ]
        sizes = (k.CHUNK_FOOTER, k.CHUNK_INSTR_COUNT)
        return [row for row in found if not (row[0] & 0xFF == k.MARKER and row[0] >> c.SIZE_SHIFT in sizes)]

    assert rows(write_loop(tmp_path / "a.trace.zip", chunk_size=7)) == rows(write_loop(tmp_path / "a.trace"))


@pytest.mark.usefixtures("build")
def test_what_the_kernel_executed_is_marked_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with TraceWriter(str(path), filetype=k.HAS_ENCODINGS) as trace:
        trace.begin(1, 1, START)
        trace.instruction(k.INSTRUCTION, 0x401000, SYSCALL)
        trace.marker(k.SYSCALL_TRACE_START, 0)
        trace.instruction(k.INSTRUCTION, 0xFFFFFFFF92000000, NOP)
        trace.marker(k.SYSCALL_TRACE_END, 0)
        trace.instruction(k.INSTRUCTION, 0x401002, NOP)
    for keep, addresses in ((0, [0x401000, 0x401002]), (c.KEEP_KERNEL, [0x401000, 0xFFFFFFFF92000000, 0x401002])):
        with TraceFile(str(path)) as file:
            assert [each[2] for each in seen_of(TraceReader(file, c.KEEP_INSTRUCTIONS | keep))] == addresses


@pytest.mark.usefixtures("build")
def test_tables_grow(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with TraceWriter(str(path), filetype=k.HAS_ENCODINGS) as trace:
        trace.begin(1, 1, START)
        for number in range(4200):
            trace.instruction(k.INSTRUCTION, 0x401000 + number, number.to_bytes(2 + number % 14, "little"))
    seen = read_all(path)
    assert [code for _, _, _, code, _ in seen] == [n.to_bytes(2 + n % 14, "little") for n in range(4200)]


def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.trace.gz"
    head = struct.pack("<HHQ", k.HEADER, 0, 7)
    path.write_bytes(gzip.compress(head + bytes(12 * 10_000_000), 1))
    before = reset_peak_memory()
    with pytest.raises(FormatError, match="no footer"), TraceFile(str(path)) as file:
        list(TraceReader(file, 0).rows())
    assert peak_memory() - before < 20 << 20


def test_files_of_a_directory(tmp_path: Path) -> None:
    folder = tmp_path / "app.dir" / "trace"
    folder.mkdir(parents=True)
    for name in ("b.trace.zip", "a.trace.zip", "cpu_schedule.bin.zip", "serial_schedule.bin.gz", "modules.log"):
        (folder / name).touch()
    assert trace_files(str(tmp_path / "app.dir")) == [str(folder / "a.trace.zip"), str(folder / "b.trace.zip")]


def test_a_trace_of_windows_is_that_of_all(tmp_path: Path) -> None:
    folder = tmp_path / "app.dir" / "trace"
    (tmp_path / "app.dir" / "raw").mkdir(parents=True)
    for name in (
        "window.0001/a.trace.zip",
        "window.0000/b.trace.zip",
        "window.0000/a.trace.zip",
        "windows/c.trace.zip",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    found = ["window.0000/a.trace.zip", "window.0000/b.trace.zip", "window.0001/a.trace.zip"]
    assert trace_files(str(tmp_path / "app.dir")) == [str(folder / name) for name in found]
    assert trace_files(str(folder / "window.0001")) == [str(folder / "window.0001" / "a.trace.zip")]
