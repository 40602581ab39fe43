"""Instructions are decoded once, anew where their bytes changed, and from the binaries where the trace has no bytes."""

from __future__ import annotations

from pathlib import Path

import capstone
import pytest

from icf.elf.image import Image
from icf.elf.types import Machine
from tests.e2e.program import icf
from tests.support.paths import ROOT
from tests.support.traces import START, write_loop
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace.container import TraceFile
from unwind.trace.decode import DecodeCache
from unwind.trace.reader import TraceReader
from unwind.trace.writer import TraceWriter

SHOP, TINY = ROOT / "testdata/shop/shop.gold", ROOT / "testdata/corrupt/tiny"  # position-independent, and not
BIAS = 0x7F0000000000


def test_changed_code_is_decoded_anew_and_the_rest_once(tmp_path: Path) -> None:
    texts, decoded = [], set()
    with TraceFile(str(write_loop(tmp_path / "a.trace.zip"))) as file:
        reader, cache = TraceReader(file, c.KEEP_INSTRUCTIONS), DecodeCache(Machine.X86_64)
        for rows in reader.rows():
            for row in range(len(rows)):
                instruction = cache.instruction(reader.codes, rows[row, c.WHAT] >> c.CODE_SHIFT)
                decoded.add(id(instruction))
                if rows[row, c.ADDRESS] == 0x401012:
                    texts.append(instruction.mnemonic)
    assert texts == ["nop"] * 25 + ["clc"] * 25
    assert len(decoded) == 6


def legacy(folder: Path, bias: int, path: Path = SHOP, function: str = "main") -> tuple[Path, list[str]]:
    """Write a trace without bytes of the first instructions of a program; return what they are as text."""
    with Image.open(str(path)) as image:
        symbol = next(row for row in image.symbols.functions if image.symbols.name(int(row)) == function)
        start = int(image.symbols.value[symbol])
        code = bytes(image.read(start, 40))
    listed = list(capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64).disasm_lite(code, start + bias))[:5]
    path = folder / "a.trace.gz"
    with TraceWriter(str(path), version=1) as trace:
        trace.begin(1, 1, START)
        for address, size, _, _ in listed:
            trace.instruction(k.INSTRUCTION, address, bytes(size))
    return path, [mnemonic for _, _, mnemonic, _ in listed]


def test_a_trace_without_bytes_takes_them_from_the_image(tmp_path: Path) -> None:
    path, mnemonics = legacy(tmp_path, 0, TINY, "_start")
    shown = icf("trace", "view", "--cache-dir", tmp_path, "-e", TINY, path).splitlines()
    assert [line[62:].split()[0] for line in shown] == mnemonics and len(mnemonics) > 3


@pytest.mark.parametrize("verb", ["view", "profile"])
def test_a_program_that_may_lie_anywhere_needs_a_list_of_modules(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = legacy(tmp_path, BIAS)
    icf("trace", verb, "--cache-dir", tmp_path, "-e", SHOP, path, status=1)
    said = f"has no modules.log, and {SHOP} is position-independent: nothing says where it lay\nhint: --modules FILE"
    assert said in capsys.readouterr().err


def test_a_trace_without_bytes_takes_them_from_where_modules_lay(tmp_path: Path) -> None:
    path, mnemonics = legacy(tmp_path, BIAS)
    row = f"0, 0, {BIAS:#x}, {BIAS + 0x100000:#x}, 0x0, 0000000000000000, 0x0, v#1,0, /far/away/{SHOP.name}\n"
    (tmp_path / "modules.log").write_text(f"Module Table: version 5, count 1\nColumns: id\n{row}")
    shown = icf("trace", "view", "--cache-dir", tmp_path, "--binary-dir", SHOP.parent, path).splitlines()
    assert all(line.endswith("  <main | ?>") for line in shown)
    assert [line[62:].split()[0] for line in shown] == mnemonics


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = legacy(tmp_path, BIAS)
    icf("trace", "view", path, status=1)
    assert "has no modules.log: nothing says what it is of" in capsys.readouterr().err
    row = f"0, 0, {BIAS:#x}, {BIAS + 0x100000:#x}, 0x0, 0000000000000000, 0x0, v#1,0, /far/away/other\n"
    (tmp_path / "modules.log").write_text(f"Module Table: version 5, count 1\nColumns: id\n{row}")
    icf("trace", "view", path, status=1)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"icf: error: instruction at {BIAS:#x}"[:37]) and "/far/away/other" in said[0]
    assert len(said) == 2 and said[1].startswith("hint: -e IMAGE, or --binary-dir DIR")
