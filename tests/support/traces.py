"""Small traces."""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import ROOT
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace.container import TraceFile
from unwind.trace.decode import code_bytes
from unwind.trace.reader import TraceReader
from unwind.trace.writer import TraceWriter

ALL_ASM = ROOT / "testdata/trace/allasm_x86_64.trace.zip"
START = 0x2F731B328FAE74  # microseconds since 1601
NOP, RET, CALL_8, SYSCALL = bytes.fromhex("90"), bytes.fromhex("c3"), bytes.fromhex("e803000000"), bytes.fromhex("0f05")
LONG = bytes.fromhex("662e0f1f840000000000")

Seen = tuple[int, int, int, bytes, int]  # type, is_new, address, bytes, target


def write_loop(
    path: Path, *, rounds: int = 50, chunk_size: int = 20, version: int = 7, with_bytes: bool = True
) -> Path:
    """Write a trace of a loop that calls a function; the code of the function changes at half of the rounds."""
    filetype = k.IS_X86_64 | (k.HAS_ENCODINGS if with_bytes else 0)
    with TraceWriter(str(path), version=version, filetype=filetype, chunk_size=chunk_size) as trace:
        trace.begin(7, 5, START)
        for number in range(rounds):
            trace.instruction(k.INSTRUCTION, 0x401000, LONG)
            trace.data(k.READ, 0x5000 + 8 * number, 8)
            trace.instruction(k.DIRECT_CALL, 0x40100A, CALL_8)
            trace.data(k.WRITE, 0x7FFF0000, 8)
            trace.instruction(k.INSTRUCTION, 0x401012, NOP if number < rounds // 2 else b"\xf8")
            trace.instruction(k.RETURN, 0x401013, RET, 0x40100F)
            trace.data(k.READ, 0x7FFF0000, 8)
            trace.instruction(k.TAKEN_JUMP, 0x40100F, b"\xeb\xef")
            if number % 3 == 0:
                trace.now(START + 10 * (number + 1), number % 2)
    return path


def seen_of(reader: TraceReader) -> list[Seen]:
    """Return the instructions that a reader has from here on."""
    seen = []
    for rows in reader.rows():
        for row in range(len(rows)):
            what = rows[row, c.WHAT]
            if what & c.TYPE_MASK in (k.INSTRUCTION, *range(k.DIRECT_JUMP, k.BUNDLE), k.TAKEN_JUMP, k.UNTAKEN_JUMP):
                code = code_bytes(reader.codes, what >> c.CODE_SHIFT)
                new = int(what & c.IS_NEW != 0)
                seen.append((what & c.TYPE_MASK, new, rows[row, c.ADDRESS], code, rows[row, c.TARGET]))
    return seen


def read_all(path: Path) -> list[Seen]:
    """Return the instructions of a file."""
    with TraceFile(str(path)) as file:
        return seen_of(TraceReader(file))
