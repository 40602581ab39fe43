"""`.debug_vcall`: what the code proves, what an earlier table says and the code contradicts, what verify finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.model import Evidence
from icf.tables.load import load_tables
from icf.tables.vcall import VirtualCalls, encode_vcall
from linkpass.pipeline import Options, run_pass
from linkpass.rewrite.edits import SectionEdit
from linkpass.rewrite.sections import rewrite
from linkpass.tables.verify import verify_image
from tests.e2e.workshop import AARCH64, GOLD, LLD, Toolchain
from tests.linkpass.programs import build

SOURCE = """
struct Fruit { virtual int price() = 0; virtual int weight() = 0; int cents = 7; };
struct Apple : Fruit { int price() override; int weight() override; };
struct Pear : Fruit { int price() override; int weight() override; };
int Apple::price() { return cents; }
int Pear::price() { return cents; }
int Apple::weight() { return cents + 1; }
int Pear::weight() { return cents + 2; }
__attribute__((noinline)) int sell(Fruit &fruit) { return fruit.price() + 1; }
__attribute__((noinline)) int weigh(Fruit &fruit) { return fruit.weight() + 1; }
int main() { Apple apple; Pear pear; return sell(apple) + sell(pear) + weigh(apple) + weigh(pear); }
"""


def with_table(path: Path, calls: list[tuple[int, int]]) -> None:
    contents, _ = encode_vcall(VirtualCalls.of(calls))
    with Image.open(str(path)) as image:
        rewrite(image, path, [SectionEdit(".debug_vcall", contents)])


@pytest.mark.parametrize("toolchain", [GOLD, LLD, AARCH64], ids=str)
def test_slots_from_code_and_table(toolchain: Toolchain, tmp_path: Path) -> None:
    path = build(tmp_path, toolchain, {"main.cpp": SOURCE}).image
    foreign = tmp_path / "foreign"
    foreign.write_bytes(path.read_bytes())
    run_pass(str(path), Options())
    with Image.open(str(path)) as image:
        tables = load_tables(image)
        symbols = image.symbols
        sell = next(row for row in symbols.functions.tolist() if symbols.name(row) == "_Z4sellR5Fruit")
        start, end = int(symbols.value[sell]), int(symbols.value[sell] + symbols.size_bytes[sell])
        calls = list(zip(tables.virtual.call_site.tolist(), tables.virtual.vtable_slot.tolist(), strict=True))
        site = next(site for site, _ in calls if start < site <= end)
        assert dict(calls)[site] == 0 and not verify_image(image)
        assert set(tables.icf.vcall_evidence) == {Evidence.DECODED}
    with_table(path, [(at, slot + (at == site)) for at, slot in calls])
    with Image.open(str(path)) as image:
        assert f"call site {site:#x}: the code takes slot 0, not 1" in "".join(verify_image(image))
    for slot, dropped in ((0, {}), (1, {"table: the code takes another slot": 1})):
        copy = tmp_path / f"copy{slot}"
        copy.write_bytes(foreign.read_bytes())
        with_table(copy, [(site, slot), (start + 1, 0)])
        summary = run_pass(str(copy), Options())
        assert summary.dropped == dropped | {"table: no call through a pointer ends there": 1}
        with Image.open(str(copy)) as image:
            found = load_tables(image)
            assert (site in found.virtual.call_site.tolist()) == (slot == 0)
            assert found.icf.vcall_evidence.count(Evidence.TABLE) == (slot == 0)
