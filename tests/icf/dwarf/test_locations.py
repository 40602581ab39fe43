"""Location lists and parameters of compiled programs: as pyelftools reads them, entry by entry."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from elftools.dwarf.locationlists import BaseAddressEntry, LocationEntry, LocationParser
from elftools.elf.elffile import ELFFile

from icf.contents import Contents
from icf.dwarf import columns as col
from icf.dwarf.constants import DW_AT_location
from icf.dwarf.locations import entries, expression_at
from icf.dwarf.opening import open_debug
from icf.dwarf.scan import scan_functions
from icf.dwarf.scopes import Scopes
from icf.dwarf.trees import Die, Trees, Value
from icf.dwarf.typenames import Kind, Types
from icf.elf.image import Image
from tests.support import toolchain

SOURCE = """
    #include <cstddef>
    enum class Mark : signed char { A, B };
    typedef const char *const Text;
    struct Node { int value; Node *next; int visit(int depth, double weight, Mark mark, Text text, Node &&other); };
    static volatile int total;
    __attribute__((noinline)) int leaf(int n) { total += n; return total; }
    __attribute__((noinline)) void stop() { __builtin_trap(); }
    inline int twice(int n) { return leaf(n) + leaf(n + 1); }
    int Node::visit(int depth, double weight, Mark mark, Text text, Node &&other) {
        int found = twice(value) + leaf(depth) + int(mark);
        if (found == 12345) stop();
        return next ? next->visit(depth + 1, weight, mark, text, static_cast<Node &&>(other)) + found
                    : found + leaf(int(weight)) + text[other.value];
    }
    int main(int argc, char **argv) {
        Node node; node.value = argc; node.next = nullptr;
        return node.visit(argc, 2.5, Mark::B, argv[0], static_cast<Node &&>(node));
    }
"""
BUILDS = [
    (compiler, version, more)
    for compiler in ("g++", "clang++")
    for version, more in ((3, ()), (4, ()), (5, ()), (5, ("-gdwarf64",)), (5, ("-ffunction-sections",)))
]


@cache
def program(compiler: str, version: int, more: tuple[str, ...]) -> Path:
    folder = toolchain.lasting_folder()
    (folder / "node.cpp").write_text(SOURCE)
    command = [toolchain.tool(compiler), "-O2", "-g", f"-gdwarf-{version}", *more, "node.cpp", "-o", "node"]
    toolchain.run(*command, folder=folder)
    return folder / "node"


@pytest.mark.parametrize(("compiler", "version", "more"), BUILDS, ids=str)
def test_lists_are_as_another_reader_has_them(compiler: str, version: int, more: tuple[str, ...]) -> None:
    path = program(compiler, version, more)
    ours = {}
    with Image.open(str(path)) as image, path.open("rb") as file:
        scopes = Scopes(image)
        functions = scan_functions(open_debug(image), 1).functions
        for low in functions.low.tolist():
            for function in scopes.at(low):
                for parameter in (each for scope in function.scopes for each in scope.parameters):
                    if DW_AT_location in parameter.die.attributes:
                        found = [
                            (entry.low, entry.high, bytes(entry.expression))
                            for entry in entries(scopes.trees, parameter.die, DW_AT_location)
                        ]
                        ours[parameter.die.offset] = found or bytes(
                            scopes.trees.block(parameter.die, DW_AT_location) or b""
                        )
        theirs = {offset: found for offset, found in _lists(file).items() if offset in ours}
    assert ours == theirs
    assert sum(len(found) for found in ours.values() if isinstance(found, list)) > 15


def _lists(file: Any) -> dict[int, Any]:
    """Return the location of each parameter, by pyelftools."""
    dwarf = ELFFile(file).get_dwarf_info()
    lists = dwarf.location_lists()
    parser = LocationParser(lists)
    found: dict[int, Any] = {}
    for unit in dwarf.iter_CUs():
        for die in unit.iter_DIEs():
            attribute = die.attributes.get("DW_AT_location")
            if die.tag != "DW_TAG_formal_parameter" or attribute is None:
                continue
            location = parser.parse_from_attribute(attribute, unit["version"], die)
            if not isinstance(location, list):
                found[die.offset] = bytes(location.loc_expr)
                continue
            low_pc = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
            base = low_pc.value if low_pc is not None else 0
            listed = []
            for entry in location:
                if isinstance(entry, BaseAddressEntry):
                    base = entry.base_address
                elif isinstance(entry, LocationEntry):
                    shift = 0 if entry.is_absolute else base
                    listed.append((entry.begin_offset + shift, entry.end_offset + shift, bytes(entry.loc_expr)))
            found[die.offset] = listed
    return found


def test_types_of_parameters() -> None:
    with Image.open(str(program("g++", 5, ()))) as image:
        scopes = Scopes(image)
        types = Types(scopes.trees)
        visit = next(
            function
            for low in scan_functions(open_debug(image), 1).functions.low.tolist()
            for function in scopes.at(low)
            if function.scopes[0].name == "visit"
        )
        found = {each.name: types.at(each.type) for each in visit.scopes[0].parameters}
        objects = [each.name for each in visit.scopes[0].parameters if each.is_object]
    assert visit.linkage_name.startswith("_ZN4Node5visitEid4MarkPKcOS_")
    assert objects == ["this"]
    assert found == {
        "this": ("Node * const", 8, Kind.POINTER),
        "depth": ("int", 4, Kind.SIGNED),
        "weight": ("double", 8, Kind.FLOAT),
        "mark": ("Mark", 1, Kind.SIGNED),
        "text": ("Text", 8, Kind.POINTER),
        "other": ("Node &&", 8, Kind.POINTER),
    }


# Each kind of entry; the expression is one byte, its number
LISTS_5 = (
    b"\x01\x00" b"\x04\x00\x10\x01\x31"  # base_addressx 0: 0x4000; offset_pair
    b"\x06" + pack("<Q", 0x5000) + b"\x04\x00\x10\x01\x32"  # base_address
    b"\x02\x01\x02\x01\x33"  # startx_endx: 0x6000 to 0x7000
    b"\x03\x02\x10\x01\x34"  # startx_length: 0x7000 to 0x7010
    b"\x09\x01\x02"  # GNU's pair of views
    b"\x07" + pack("<QQ", 0x8000, 0x8010) + b"\x01\x35"  # start_end
    b"\x08" + pack("<Q", 0x9000) + b"\x10\x01\x36"  # start_length
    b"\x05\x01\x37\x00"  # default_location
)  # fmt: skip


def test_each_kind_of_entry() -> None:
    path = program("g++", 5, ())
    with Image.open(str(path)) as image:
        trees = Trees(open_debug(image, locations=True))
        trees.debug.loclists = memoryview(LISTS_5)
        trees.debug.addr = Contents(memoryview(pack("<3Q", 0x4000, 0x6000, 0x7000)))
        unit = trees.unit_die(0).unit
        trees.columns(unit)[col.ADDR_BASE] = 0
        die = Die(0, 5, unit, False, 0, {DW_AT_location: Value(col.CLS_OFFSET, 0)})

        def at(vaddr: int) -> int:
            found = expression_at(trees, die, DW_AT_location, vaddr)
            return 0 if found is None else found[0]

        assert [at(vaddr) for vaddr in (0x4000, 0x400F, 0x5000, 0x6000, 0x6FFF, 0x7000, 0x8000, 0x9000, 0x9010)] == [
            0x31, 0x31, 0x32, 0x33, 0x33, 0x34, 0x35, 0x36, 0x37,
        ]  # fmt: skip
        for size_bytes in range(len(LISTS_5) - 4):
            trees.debug.loclists = memoryview(LISTS_5[:size_bytes])
            assert at(0x9010) == 0


@pytest.mark.parametrize("version", [4, 5])
def test_lists_of_a_package_are_those_of_its_files(version: int, tmp_path: Path) -> None:
    names = ["first", "second"]
    for name in names:
        more = f"int {name}_more(int a, int b) {{ int c = leaf(a); return leaf(b) + c + a; }}\n"
        text = (
            SOURCE.replace("int main(", f"int {name}_main(")
            .replace("Node", f"Node_{name}")
            .replace("leaf", f"l_{name}")
        )
        text = text.replace("stop", f"stop_{name}").replace("twice", f"twice_{name}") + more.replace(
            "leaf", f"l_{name}"
        )
        (tmp_path / f"{name}.cpp").write_text(text)
    (tmp_path / "main.cpp").write_text("int main() { return 0; }\n")
    sources = [f"{name}.cpp" for name in (*names, "main")]
    toolchain.run(
        toolchain.tool("clang++"), "-O2", f"-gdwarf-{version}", "-gsplit-dwarf", *sources, "-o", "node", folder=tmp_path
    )
    alone = _by_function(tmp_path / "node")
    dwos = sorted(tmp_path.glob("*.dwo"))
    toolchain.run(toolchain.tool("llvm-dwp"), *dwos, "-o", "node.dwp", folder=tmp_path)
    for path in dwos:
        path.unlink()
    assert _by_function(tmp_path / "node") == alone
    assert {"_Z10first_moreii", "_Z11second_moreii"} <= alone.keys()
    assert sum(len(lists) for found in alone.values() for lists in found) > 20


def _by_function(path: Path) -> dict[str, list[list[tuple[int, int, bytes]]]]:
    """The location lists of the parameters of each function."""
    with Image.open(str(path)) as image:
        scopes = Scopes(image)
        return {
            function.linkage_name: [
                [
                    (entry.low, entry.high, bytes(entry.expression))
                    for entry in entries(scopes.trees, parameter.die, DW_AT_location)
                ]
                for parameter in function.scopes[0].parameters
            ]
            for low in scan_functions(open_debug(image), 1).functions.low.tolist()
            for function in scopes.at(low)
        }
