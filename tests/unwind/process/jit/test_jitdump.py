"""Jitdumps written field by field: loads, moves, lines, both byte orders, growth, and what breaks the format."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import pack

import pytest

from icf.errors import FormatError
from tests.support import jitdump
from unwind.process.jit.code import JitCode
from unwind.process.jit.jitdump import JitDump


class Writer:
    """Writes records in one byte order, numbered by time unless told otherwise."""

    def __init__(self, path: Path, order: str = "<") -> None:
        self.path, self.order, self.time = path, order, 0
        self.header = jitdump.header(77, order)
        path.write_bytes(self.header)
        self.dump = JitDump("jit-77.dump")
        self.fd = os.open(path, os.O_RDONLY)

    def append(self, content: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(content)

    def record(self, kind: int, content: bytes, time: int | None = None) -> bytes:
        return jitdump.record(kind, content, self._next(time), self.order)

    def load(self, name: bytes, start: int, code: bytes, index: int, time: int | None = None) -> bytes:
        return jitdump.load(name, start, code, index, self._next(time), self.order)

    def move(self, old: int, new: int, size_bytes: int, index: int) -> bytes:
        return jitdump.move(old, new, size_bytes, index, self._next(), self.order)

    def lines(self, start: int, rows: Sequence[tuple[int, int, int, bytes]], filling: bytes = b"") -> bytes:
        return jitdump.lines(start, rows, self._next(), self.order, filling)

    def _next(self, time: int | None = None) -> int:
        self.time += 1
        return self.time if time is None else time

    def find(self, address: int) -> JitCode | None:
        self.dump.read(self.fd)
        return self.dump.find(address)

    def name(self, address: int) -> str | None:
        code = self.find(address)
        return None if code is None else code.name


@pytest.fixture(params=["<", ">"])
def writer(tmp_path: Path, request: pytest.FixtureRequest) -> Writer:
    return Writer(tmp_path / "jit-77.dump", request.param)


def test_functions_and_their_lines(writer: Writer) -> None:
    rows = [(0x1000, 10, 3, b"/a b.js"), (0x1008, 12, 0, b"\xff"), (0x1010, 7, 1, b"c.js")]
    writer.append(writer.lines(0x1000, rows, bytes(3)) + writer.load(b"f(x y)", 0x1000, bytes(0x20), 1))
    writer.append(writer.load(b"plain", 0x2000, bytes(8), 2) + writer.record(3, b"") + writer.record(4, bytes(24)))
    assert writer.find(0x1000) == JitCode("f(x y)", 0x1000, 0x20, "/a b.js", 10, 3)
    assert writer.find(0x100F) == JitCode("f(x y)", 0x1000, 0x20, "/a b.js", 12, 0)
    assert writer.find(0x101F) == JitCode("f(x y)", 0x1000, 0x20, "c.js", 7, 1)
    assert writer.find(0x2007) == JitCode("plain", 0x2000, 8)
    assert writer.find(0x1020) is None and writer.find(0xFFF) is None


def test_before_its_first_line_a_function_has_none(writer: Writer) -> None:
    writer.append(writer.lines(0x1000, [(0x1004, 10, 3, b"a.js")]) + writer.load(b"f", 0x1000, bytes(8), 1))
    code = writer.find(0x1003)
    assert code == JitCode("f", 0x1000, 8) and writer.find(0x1004) == JitCode("f", 0x1000, 8, "a.js", 10, 3)


def test_addresses_behind_an_elf_header_are_told(writer: Writer) -> None:
    for index, start in enumerate((0x1000, 0x3000)):
        writer.append(writer.lines(start, [(start + 0x40, 1, 1, b"a.js"), (start + 0x48, 2, 1, b"a.js")]))
        writer.append(writer.load(b"f", start, bytes(0x80), index))
    assert [writer.find(a).line for a in (0x1000, 0x1007, 0x1008, 0x3000)] == [1, 1, 2, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "rows",
    [
        [(0xFF0, 1, 1, b"a.js")],  # before the function
        [(0x1000, 1, 1, b"a.js"), (0x9000, 2, 1, b"a.js")],  # behind it
        [(0x1000, 1, 1, b"K\xc4\x03\0\0\0\0\0F\xe7"), (0x1008, 2, 1, b"K\xc4\x03\0\0\0\0\0F\xe7")],  # V8: a freed path
        [(0x1000, 1, 1, b"a\x01.js")],
    ],
)
def test_lines_that_cannot_be_are_left_out(writer: Writer, rows: list[tuple[int, int, int, bytes]]) -> None:
    writer.append(writer.lines(0x1000, rows) + writer.load(b"f", 0x1000, bytes(0x20), 1))
    assert writer.find(0x1000) == JitCode("f", 0x1000, 0x20)


def test_a_moved_function_is_no_longer_where_it_was(writer: Writer) -> None:
    writer.append(writer.lines(0x1000, [(0x1000, 4, 2, b"a.js")]) + writer.load(b"f", 0x1000, bytes(0x20), 9))
    assert writer.name(0x1000) == "f"
    writer.append(writer.move(0x1000, 0x5000, 0x20, 9))
    assert writer.name(0x1000) is None
    assert writer.find(0x5001) == JitCode("f", 0x5000, 0x20, "a.js", 4, 2)
    writer.append(writer.load(b"g", 0x1000, bytes(0x20), 10) + writer.move(0x5000, 0x1008, 0x20, 9))
    assert [writer.name(a) for a in (0x1000, 0x1008, 0x1027, 0x5000)] == ["g", "f", "f", None]
    writer.append(writer.move(0x1000, 0x7000, 0x20, 55))
    assert writer.name(0x7000) is None, "nobody knows which function that is"


def test_the_later_one_is_there_whatever_the_order_in_the_file(writer: Writer) -> None:
    writer.append(writer.load(b"late", 0x1000, bytes(16), 1, 500) + writer.load(b"early", 0x1000, bytes(32), 2, 400))
    assert [writer.name(0x1000), writer.name(0x101F)] == ["late", "early"]
    writer.append(writer.load(b"between", 0x1008, bytes(16), 3, 450))
    assert [writer.name(a) for a in (0x1000, 0x100F, 0x1010, 0x101F)] == ["late", "late", "between", "early"]


def test_a_record_that_is_not_all_there_waits(writer: Writer) -> None:
    whole = writer.load(b"f", 0x1000, bytes(16), 1)
    for size_bytes in range(len(whole)):
        writer.path.write_bytes(writer.header + whole[:size_bytes])
        assert writer.name(0x1000) is None
    writer.path.write_bytes(writer.header + whole)
    assert writer.name(0x1000) == "f"


def test_code_bigger_than_what_is_read_at_once(writer: Writer) -> None:
    writer.append(writer.load(b"n" * 3000, 0x1000, bytes(1 << 20), 1) + writer.load(b"next", 0x900000, bytes(4), 2))
    assert writer.name(0x100FFF) == "n" * 3000 and writer.name(0x900000) == "next"


def test_a_file_that_is_written_anew_is_read_anew(writer: Writer) -> None:
    writer.append(writer.load(b"f", 0x1000, bytes(16), 1))
    assert writer.name(0x1000) == "f"
    writer.path.write_bytes(writer.header + writer.load(b"another", 0x3000, bytes(99), 1))
    assert writer.name(0x1000) is None and writer.name(0x3000) == "another"


REFUSED: list[tuple[str, Callable[[Writer], bytes], str]] = [
    ("magic", lambda w: b"JITD" + bytes(80), "starts with 4a495444, must start with 4a695444 or 4454694a"),
    ("version", lambda w: pack(f"{w.order}6I2Q", 0x4A695444, 9, 40, 62, 0, 77, 5, 0), "version 9, only 1 is known"),
    ("header", lambda w: pack(f"{w.order}6I2Q", 0x4A695444, 1, 4, 62, 0, 77, 5, 0), "header of 4 bytes, must be 40"),
    ("size", lambda w: w.header + pack(f"{w.order}2IQ", 0, 15, 0), "record of 15 bytes"),
    ("name", lambda w: w.header + w.record(0, bytes(40) + b"x" * 9), "record ends inside of a field"),
    ("fields", lambda w: w.header + w.record(1, bytes(20)), "record ends inside of a field"),
    ("end", lambda w: w.header + w.load(b"f", (1 << 64) - 4, bytes(8), 1), "end beyond the address space"),
]


@pytest.mark.parametrize(("damage", "rule"), [(d, r) for _, d, r in REFUSED], ids=[name for name, _, _ in REFUSED])
def test_what_breaks_the_format_is_told_once(writer: Writer, damage: Callable[[Writer], bytes], rule: str) -> None:
    content = damage(writer)
    is_behind = content.startswith(writer.header)
    good = writer.load(b"good", 0x1000, bytes(8), 5)
    writer.path.write_bytes(writer.header + good + content[len(writer.header) :] if is_behind else content)
    with pytest.raises(FormatError, match=r"jit-77.dump: jitdump\+0x[0-9a-f]+: ") as refused:
        writer.dump.read(writer.fd)
    assert rule in str(refused.value)
    assert writer.name(0x1000) == ("good" if is_behind else None), "what stands before it counts"
