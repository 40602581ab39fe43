"""Seeking finds what a linear read has there, at every position."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from icf import cli
from icf.errors import IcfError
from tests.support.traces import ALL_ASM, START, Seen, read_all, seen_of, write_loop
from unwind.trace import columns as c
from unwind.trace.container import TraceFile
from unwind.trace.reader import TraceReader
from unwind.trace.seek import seek_instruction, seek_time


def seen_from(path: Path, number: int) -> list[Seen]:
    with TraceFile(str(path)) as file:
        reader = TraceReader(file, c.KEEP_INSTRUCTIONS)
        seek_instruction(reader, number)
        assert reader.state[c.INSTRUCTIONS] == number
        return seen_of(reader)


def without_new(seen: list[Seen]) -> list[Seen]:
    """An instruction may be the first of its kind after a seek."""
    return [(kind, 0, *rest) for kind, _, *rest in seen]  # type: ignore[misc]


@pytest.mark.parametrize("name", ["a.trace.zip", "a.trace.gz"])
def test_every_position_is_that_of_a_linear_read(name: str, tmp_path: Path) -> None:
    path = write_loop(tmp_path / name, rounds=20)
    linear = read_all(path)
    for number in range(len(linear)):
        assert seen_from(path, number) == linear[number:]


def test_every_position_of_a_real_trace() -> None:
    linear = read_all(ALL_ASM)
    for number in range(len(linear)):
        assert seen_from(ALL_ASM, number) == linear[number:]


def test_every_time_is_that_of_a_linear_read(tmp_path: Path) -> None:
    path = write_loop(tmp_path / "a.trace.zip", rounds=20)
    plain = write_loop(tmp_path / "a.trace", rounds=20)
    for time in range(START, START + 190, 3):
        found = []
        for each in (path, plain):
            with TraceFile(str(each)) as file:
                reader = TraceReader(file, c.KEEP_INSTRUCTIONS)
                seek_time(reader, time)
                number = reader.state[c.INSTRUCTIONS]
                found.append((number, without_new(seen_of(reader)), reader.state[c.TIME]))
        assert found[0] == found[1]


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(IcfError, match="has 133 instructions, numbers 133 and up are not there"):
        seen_from(ALL_ASM, 133)
    with pytest.raises(IcfError, match="has 7 chunks of 20 instructions, number 140 is not there"):
        seen_from(ALL_ASM, 140)
    with TraceFile(str(ALL_ASM)) as file, pytest.raises(IcfError, match="ends at time 13352268558646859, before 1844"):
        seek_time(TraceReader(file), (1 << 64) - 2)


def icf(*words: str | Path) -> str:
    out = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with redirect_stdout(out):
        assert cli.main([str(word) for word in words]) == 0
    out.seek(0)
    return out.read()


def test_the_command_counts_and_shows() -> None:
    counts = {"records": 329, "instructions": 133, "threads": 1, "chunks": 7}
    assert json.loads(icf("trace", "view", "--count", "--json", ALL_ASM)) == counts
    assert icf("trace", "view", "--count", ALL_ASM) == "329 records, 133 instructions, 1 threads, 7 chunks\n"
    lines = icf("trace", "view", ALL_ASM).splitlines()
    assert len(lines) == 133
    assert icf("trace", "seek", "-n", "100", "--limit", "5", ALL_ASM).splitlines() == lines[100:105]
    shown = [json.loads(line) for line in icf("trace", "seek", "-n", "132", "--json", "--all", ALL_ASM).splitlines()]
    assert shown[0]["text"] == "syscall" and shown[0]["instruction"] == 132
    assert {"marker": "timestamp", "value": 13352268558646859} in shown and shown[-1] == {
        "record": "footer",
        "value": 0,
    }
