"""`icf verify --second-reader`: both readers agree on what the pass wrote; a mistake in either is one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from icf.elf.image import Image
from icf.tables.callunit import Dialect
from icf.tables.dcall import DirectCalls, encode_dcall, parse_dcall
from icf.tables.load import load_tables
from icf.tables.vcall import VirtualCalls, encode_vcall
from linkpass.pipeline import Options, run_pass
from linkpass.second_reader.check import verify_again
from linkpass.second_reader.tables import read_dcall, read_vcall
from tests.e2e.program import icf

SHOP = Path(__file__).resolve().parents[2] / "testdata" / "shop"


@pytest.fixture(params=["shop.gold", "shop.lld"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A program with its tables."""
    path = Path(shutil.copy(SHOP / request.param, tmp_path))
    run_pass(str(path), Options())
    return path


def section(path: Path, name: str) -> tuple[int, int]:
    """Offset and size of a section in its file."""
    with Image.open(path) as image:
        found = image.section(name)
        assert found is not None
        return found.offset, found.size_bytes


def change(path: Path, offset: int, value: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] = value
    path.write_bytes(data)


def test_both_readers_agree_on_what_the_pass_wrote(shop: Path) -> None:
    out = icf("verify", "--second-reader", shop)
    assert out.endswith("both readers agree, and symbols, DIEs and code\n") and out.count("\n") == 1
    assert '"problems": []' in icf("verify", "--second-reader", "--json", shop)


def test_a_row_that_the_first_reader_has_differently_is_shown(shop: Path) -> None:
    with Image.open(shop) as image:
        tables = load_tables(image)
        tables.direct.callee_die[2] += np.uint64(1)
        (problem,) = verify_again(image, tables)
    assert problem.startswith("call site 2: the second reader has (") and ", the first (" in problem


def test_a_callee_that_is_no_function_is_shown(shop: Path) -> None:
    offset, size_bytes = section(shop, ".debug_dcall")
    before = shop.read_bytes()[offset + size_bytes - 1]
    change(shop, offset + size_bytes - 1, before ^ 1)  # the last byte of a DIE offset
    lines = icf("verify", "--second-reader", shop, status=1).splitlines()
    assert any("DIE 0x" in line or "the callee is in no class" in line for line in lines)
    assert lines[-1].endswith("problems")


def test_a_call_site_after_no_call_is_shown(shop: Path) -> None:
    offset, _ = section(shop, ".debug_dcall")
    start = offset + 4 + 1 + 4 + 1  # the header of the first unit
    first = shop.read_bytes()[start : start + 8]
    if not any(first):  # a caller record: a label, and a ULEB128
        start += 8 + next(idx for idx in range(10) if not shop.read_bytes()[start + 8 + idx] & 0x80) + 1
    change(shop, start, shop.read_bytes()[start] ^ 1)
    assert "no direct call ends there" in icf("verify", "--second-reader", shop, status=1)


def test_a_table_of_another_version_is_refused(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offset, _ = section(shop, ".debug_icf")
    change(shop, offset + 4, 9)  # the version
    icf("verify", "--second-reader", shop, status=1)
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"icf: error: {shop}: .debug_icf+0x4: ") and hint == "hint: a newer icf has written it"
    plain = SHOP / "shop.lld"
    icf("verify", "--second-reader", plain, status=1)
    assert "has no .debug_icf" in capsys.readouterr().err


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("dwarf64", [False, True])
def test_both_dialects_are_read_again(dialect: Dialect, dwarf64: bool) -> None:
    rows = [(0x1010, 0x40, 0x30), (0x1020, 0x300, 0x30), (0x1020, 0x90, 0x80), (0x2008, 0x140, 0)]
    starts, ends = np.array([0x10, 0x100], np.uint64), np.array([0x100, 0x400], np.uint64)
    data, _ = encode_dcall(DirectCalls.of(rows), starts, ends, dialect=dialect, dwarf64=dwarf64)
    first = parse_dcall(data, "f")
    columns = (first.call_site, first.callee_die, first.caller_die)
    assert read_dcall(data, "f") == list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(first) == len(rows)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_virtual_calls_are_read_again(dialect: Dialect) -> None:
    rows = [(0x1010, 3), (0x1020, 200), (0x2008, 0)]
    data, _ = encode_vcall(VirtualCalls.of(rows), dialect=dialect)
    assert read_vcall(data, "f") == rows
