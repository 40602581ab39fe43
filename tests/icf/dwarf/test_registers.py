"""Which variables are in registers, beside what the reader of single DIEs says of their location lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from icf.dwarf import _registers, registers
from icf.dwarf.children import ChildReader
from icf.dwarf.constants import DW_AT_abstract_origin, DW_AT_location, DW_AT_type
from icf.dwarf.locations import entries
from icf.dwarf.opening import open_debug
from icf.dwarf.registers import ANYWHERE, Asked, RegisterReader
from icf.dwarf.scan import scan_functions
from icf.dwarf.trees import Tree, Trees
from icf.elf.image import Image
from tests.support.builds import uncompiled
from tests.support.toolchain import run, tool

SOURCE = """
struct Shape { int x; virtual void draw(int n); int twice() { draw(1); draw(2); return x; } };
int total;
void Shape::draw(int n) { total += n; }
__attribute__((noinline)) void each(Shape **all, int n) {
  for (int i = 0; i < n; ++i) { Shape *s = all[i]; s->draw(n); total += s->twice(); }
}
int main(int n, char **) { Shape s; Shape *all[] = {&s, &s}; each(all, n); return total == 7; }
"""
EVERY_REGISTER = 0xFFFF


@pytest.fixture(params=[("g++", 5), ("g++", 4), ("clang++", 5), ("clang++", 4)], ids=str)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    compiler, version = request.param
    (tmp_path / "a.cpp").write_text(SOURCE)
    run(tool(compiler), "-g", f"-gdwarf-{version}", "-O2", tmp_path / "a.cpp", "-o", tmp_path / "a")
    return tmp_path / "a"


def in_lists(trees: Trees, tree: Tree, addresses: list[int]) -> set[tuple[int, int, int]]:
    """The variables below a DIE that are in a register: address, register, type."""
    found, todo = set(), list(tree.children)
    while todo:
        each = todo.pop()
        todo += each.children
        origin = trees.reference(each.die, DW_AT_abstract_origin)
        what = trees.reference(trees.die(origin) if origin else each.die, DW_AT_type)
        for entry in entries(trees, each.die, DW_AT_location):
            expression = bytes(entry.expression)
            if len(expression) == 1 and 0x50 <= expression[0] < 0x60:
                inside = [at for at in addresses if entry.low <= at < entry.high]
                found |= {(at, expression[0] - 0x50, what) for at in inside}
            if len(expression) == 3 and 0x70 <= expression[0] < 0x80 and expression[1:] == b"\0\x9f":
                inside = [at for at in addresses if entry.low <= at < entry.high]
                found |= {(at, expression[0] - 0x70, what) for at in inside}
    return found


def asked_of(functions: list[tuple[int, int, list[int]]], bits: int) -> Asked:
    """Ask for the same registers at some addresses of each function: its DIE, where it starts, addresses."""
    die, start = (np.array([each[column] for each in functions], np.uint64) for column in (0, 1))
    address = np.array([at for *_, addresses in functions for at in addresses], np.uint64)
    first = np.cumsum([0, *(len(addresses) for *_, addresses in functions)])
    return Asked(die, start, first, address, np.full(len(address), bits, np.uint64))


def test_registers_are_those_of_the_location_lists(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Image.open(image) as opened:
        debug = open_debug(opened, locations=True)
        functions, trees = scan_functions(debug, 1).functions, Trees(debug)
        asked, expected = [], set()
        for row, (die, low, high) in enumerate(
            sorted(zip(functions.die.tolist(), functions.low.tolist(), functions.high.tolist(), strict=True))
        ):
            addresses = list(range(low, high))
            asked.append((die, low, addresses))
            expected |= {(row, *found) for found in in_lists(trees, trees.tree(die, 1000), addresses)}
        columns = asked_of(asked, EVERY_REGISTER)

        def read() -> list[tuple[int, ...]]:
            found = RegisterReader(opened, ChildReader(debug)).read(columns)
            return list(zip(*(column.tolist() for column in found), strict=True))

        found = read()
        monkeypatch.setattr(registers, "_TAIL_BYTES", 1)  # the first window ends in the last list
        assert read() == found
        monkeypatch.setattr(registers, "_FUNCTIONS", 1)
        one_by_one = read()
        assert sorted(one_by_one) == sorted(found) and len({row for row, *_ in found}) > 1
        monkeypatch.setattr(registers, "read_registers", uncompiled(_registers).read_registers)
        assert read() == one_by_one
        assert {
            (row, int(columns.address[address]), register, type_)
            for row, address, register, type_ in found
            if address != ANYWHERE
        } == expected
        assert len(expected) > 40


def test_only_registers_that_are_asked_for(image: Path) -> None:
    with Image.open(image) as opened:
        debug = open_debug(opened)
        functions = scan_functions(debug, 1).functions
        reader = RegisterReader(opened, ChildReader(debug))

        def found(bits: int) -> list[int]:
            rows = sorted(zip(functions.die.tolist(), functions.low.tolist(), strict=True))
            registers: list[int] = reader.read(
                asked_of([(die, low, [low]) for die, low in rows], bits)
            ).register.tolist()
            return registers

        assert set(found(1 << 5)) == {5}  # rdi, the first argument
        assert found(0) == []
