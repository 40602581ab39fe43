"""Perf maps: what an entry is, growing files, and files written anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from unwind.process.jit.code import JitCode
from unwind.process.jit.perf_map import PerfMap


class Opened:
    """A perf map that is written to, and its reader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self.fd = os.open(path, os.O_RDONLY)
        self.map = PerfMap()

    def append(self, text: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(text)

    def name(self, address: int) -> str | None:
        self.map.read(self.fd)
        code = self.map.find(address)
        return None if code is None else code.name


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    it = Opened(tmp_path / "perf-1.map")
    yield it
    os.close(it.fd)


def test_an_entry(opened: Opened) -> None:
    opened.append(
        b"7f80f62cc016 b py::_Lock.__enter__:<frozen importlib._bootstrap>\n0x1000 0X20 void f<int>(a, b) [x]\n"
    )
    assert (
        opened.name(0x7F80F62CC016)
        == opened.name(0x7F80F62CC020)
        == "py::_Lock.__enter__:<frozen importlib._bootstrap>"
    )
    assert opened.name(0x7F80F62CC021) is None and opened.name(0x7F80F62CC015) is None
    assert opened.map.find(0x1010) == JitCode("void f<int>(a, b) [x]", 0x1000, 0x20)


def test_what_came_later_lies_above(opened: Opened) -> None:
    opened.append(b"1000 100 old\n1080 100 new\n1010 8 inner\n")
    assert [opened.name(a) for a in (0x1000, 0x1010, 0x1018, 0x1080, 0x117F)] == ["old", "inner", "old", "new", "new"]


def test_the_file_is_read_on_as_it_grows(opened: Opened) -> None:
    assert opened.name(0x1000) is None
    opened.append(b"1000 10 first\n2000 10 sec")
    assert opened.name(0x1000) == "first" and opened.name(0x2000) is None
    opened.append(b"ond\n1000 10 again\n")
    assert opened.name(0x2000) == "second" and opened.name(0x1000) == "again"


def test_a_file_that_is_written_anew_is_read_anew(opened: Opened) -> None:
    opened.append(b"1000 10 first\n")
    assert opened.name(0x1000) == "first"
    opened.path.write_bytes(b"2000 10 a name that is longer\n3000 10 third\n")
    assert opened.name(0x1000) is None and opened.name(0x3000) == "third"
    opened.path.write_bytes(b"")
    assert opened.name(0x3000) is None


def test_what_is_no_entry_is_left_out(opened: Opened) -> None:
    long = b"5000 10 " + b"n" * (3 << 20)
    lines = [
        b"1000 10 ok",
        b"",
        b"x 10 name",
        b"1000",
        b"2000 10",
        b"2000 10 ",
        b"-1 10 n",
        b"ffffffffffffffff 2 n",
        long,
    ]
    opened.append(b"\n".join([*lines, b"4000 10 \xff\n"]))
    assert opened.name(0x1000) == "ok" and opened.name(0x4000) == "\udcff"
    assert not any(opened.name(address) for address in (0, 0x2000, 0x5000, 2**64 - 1))


def test_an_empty_function_is_nowhere(opened: Opened) -> None:
    opened.append(b"1000 10 ok\n1000 0 empty\n")
    assert opened.name(0x1000) == "ok"
