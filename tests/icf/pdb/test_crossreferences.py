"""Functions that were inlined from another module at link time: their names, beside those that llvm-pdbutil lists."""

from __future__ import annotations

import ntpath
import re
from pathlib import Path
from struct import pack

import pytest

from icf.errors import FormatError
from icf.pdb import columns as col
from icf.pdb.crossreferences import CrossReferences
from icf.pdb.dbi import Module
from icf.pdb.file import Pdb
from tests.support.microsoft import microsoft
from tests.support.toolchain import run, tool

IMPORTS = bytes.fromhex(
    "f7000000 1c000000"  # imports, 28 bytes
    "01000000 01000000 11000000"  # module at 1 of the strings, one number: 0x11
    "07000000 02000000 22000000 33000000"  # module at 7, two numbers
)
EXPORTS = bytes.fromhex(
    "f4000000 03000000 000000 00"  # files: 3 bytes and one to fill 4
    "f8000000 18000000"  # exports, 24 bytes
    "33000000 00200000"  # 0x33 is 0x2000
    "44000000 01200000 44000000 02200000"  # 0x44 is two functions
)
_NUMBER_BITS = 20
NAMES = {1: "a.obj", 7: r"d:\b.obj"}


def program(
    imports: bytes = IMPORTS, exports: bytes = EXPORTS, other: str = r"D:\B.obj"
) -> tuple[Module, CrossReferences]:
    """A module, and the references of its program: the module imports, another one exports."""
    streams = {1: memoryview(imports), 2: memoryview(exports)}
    modules = (
        Module(0, "A.obj", "", 1, 0, 0, len(imports)),
        Module(1, other, "", 2, 0, 0, len(exports)),
    )
    return modules[0], CrossReferences(modules, streams.__getitem__, lambda at: NAMES.get(at, ""), "app.pdb")


def find(number: int, module: Module, references: CrossReferences) -> int:
    return references.find(module, number)


def test_a_number_leads_to_the_function_of_another_module() -> None:
    assert find(0x80100001, *program()) == 0x2000
    assert find(0x1234, *program()) == 0x1234  # not of another module


@pytest.mark.parametrize("number", [0x80100000, 0x80100002, 0x80200000, 0xFFFFFFFF, 0x80000000])
def test_a_number_that_leads_nowhere_has_no_function(number: int) -> None:
    assert find(number, *program()) == 0


def test_a_number_that_means_two_functions_has_none() -> None:
    imports = IMPORTS.replace(b"\x33\0\0\0", b"\x44\0\0\0")
    assert find(0x80100001, *program(imports)) == 0


def test_a_name_that_two_modules_have_means_neither() -> None:
    module, references = program(other="a.OBJ")
    imports = IMPORTS.replace(b"\x07\0\0\0", b"\x01\0\0\0")
    assert find(0x80100001, module, references) == 0
    assert find(0x80100001, *program(imports, other="only.obj")) == 0


def test_every_truncation_is_refused() -> None:
    for size_bytes in range(1, len(IMPORTS)):
        with pytest.raises(FormatError, match=r"app\.pdb: lines of A\.obj\+0x[0-9a-f]+: "):
            find(0x80100001, *program(IMPORTS[:size_bytes]))
    for size_bytes in range(1, len(EXPORTS)):
        if size_bytes not in (11, 12):  # nothing but the files
            with pytest.raises(FormatError, match=r"app\.pdb: lines of D:\\B\.obj\+0x[0-9a-f]+: "):
                find(0x80100001, *program(exports=EXPORTS[:size_bytes]))


def test_a_count_of_imports_beyond_the_table_is_refused() -> None:
    imports = pack("<5I", 0xF7, 12, 1, 0xFFFFFFFF, 5)
    with pytest.raises(FormatError, match=r"lines of A\.obj\+0xc: 4294967295 imports, 4 bytes are left"):
        find(0x80000000, *program(imports))


@pytest.mark.parametrize("name", ["win32-x64/winpty-agent.exe", "win32-arm64/pty.node"])
def test_names_are_those_of_llvm_pdbutil(name: str) -> None:
    path = microsoft(name).with_suffix(".pdb")
    true, compared = _Said(path), 0
    with Pdb.open(str(path)) as pdb:
        references = CrossReferences(pdb.dbi.modules, pdb.stream, pdb.string, pdb.path)
        own: dict[int, set[tuple[str, int]]] = {}
        crossing: dict[int, set[tuple[str, int]]] = {}
        for module in pdb.dbi.modules:
            lines = pdb.lines_of(module, pdb.symbols_of(module))
            for number, file, line in lines.inlinees[:, [col.I_FUNCTION, col.I_FILE, col.I_LINE]].tolist():
                found = references.find(module, number)
                places = crossing if number >> 31 else own
                places.setdefault(found, set()).add((ntpath.basename(pdb.file_name(lines.files, file)), line))
                if number >> _NUMBER_BITS == 1 << 11:  # of imports from more than one module it lists the first
                    compared += 1
                    assert pdb.inlined_name(module, number) and found == true.number(module.number, number)
    assert compared >= 50
    # a function is where the modules say that have their own number of it
    shared = own.keys() & crossing.keys()
    assert all(crossing[number] <= own[number] for number in shared) and len(shared) >= 10 and 0 not in crossing


class _Said:
    """Imports and exports as llvm-pdbutil prints them."""

    def __init__(self, path: Path) -> None:
        text = run(tool("llvm-pdbutil"), "dump", "-xmi", "-xme", path).stdout
        self._imports: dict[int, list[tuple[str, list[int]]]] = {}
        self._exports: dict[str, dict[int, int]] = {}
        number, module = 0, ""
        for line in text.splitlines():
            if found := re.match(r" *Mod (\d+) \| `(.*)`", line):
                number, module = int(found[1]), found[2].lower()
            elif found := re.match(r" *(0x\w+) \| (0x\w+)$", line):
                self._exports.setdefault(module, {})[int(found[1], 16)] = int(found[2], 16)
            elif found := re.match(r" *(\S.*\S)? +\|((?: +0x\w+)+) *$", line):
                self._imports.setdefault(number, []).append((found[1], _numbers(found[2])))
            elif re.match(r" {20,}(?: *0x\w+)+ *$", line) and number in self._imports:
                self._imports[number][-1][1].extend(_numbers(line))

    def number(self, module: int, number: int) -> int:
        """Return the number of an imported function in the IPI stream."""
        shown, numbers = self._imports[module][0]
        end = shown.removeprefix("...")
        (exports,) = (each for name, each in self._exports.items() if name.endswith(end))
        return exports[numbers[number & (1 << _NUMBER_BITS) - 1]]


def _numbers(text: str) -> list[int]:
    return [int(each, 16) for each in text.split()]
