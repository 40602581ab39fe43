"""COFF objects: functions and relocations, beside llvm-readobj, and what breaks their format."""

from __future__ import annotations

import re
from pathlib import Path
from struct import pack

import pytest

from icf.coff.objectfile import AMD64, REL32, CoffObject, is_coff_object
from icf.elf.archive import map_file, members
from icf.errors import FormatError
from tests.support.toolchain import lasting_folder, run, tool
from tests.support.windows import SHOP, compile_windows


def shop_object() -> Path:
    return compile_windows(SHOP)


def test_functions_and_relocations_are_those_of_llvm_readobj() -> None:
    path = shop_object()
    obj = CoffObject(map_file(str(path)), str(path))
    said = run(tool("llvm-readobj"), "--symbols", "-r", path).stdout
    symbols = re.findall(
        r"Name: (\S+)\n +Value: (\d+)\n +Section: \S* \((\d+)\)\n.*\n +ComplexType: Function .*\n +StorageClass: (\w+)",
        said,
    )
    functions = {(each.name, str(each.start), str(each.section + 1), each.is_local) for each in obj.functions()}
    assert functions == {(name, value, section, kind == "Static") for name, value, section, kind in symbols}
    relocations = re.findall(r"0x([0-9A-F]+) IMAGE_REL_AMD64_REL32 (\S+) \((\d+)\)", said)
    found = [
        (f"{offset:X}", obj.name(symbol), str(symbol))
        for section in range(len(obj.sections))
        for offset, symbol, kind in obj.relocations(section).tolist()
        if kind == REL32
    ]
    assert found == relocations and len(found) > 20


def test_an_archive_of_a_windows_librarian_has_long_names() -> None:
    folder = lasting_folder()
    name = "a_name_of_more_than_sixteen_bytes.obj"
    (folder / name).write_bytes(shop_object().read_bytes())
    run(tool("llvm-lib"), "/out:x.lib", name, folder=folder)
    ((found, content),) = members(folder / "x.lib")
    assert found == name and is_coff_object(content)


@pytest.mark.parametrize(
    ("at", "content", "message"),
    [
        (12, b"\xff\xff\xff\x7f", r"COFF header\+0x0: 2147483647 symbols at 0x[0-9a-f]+ end outside of the file"),
        (2, b"\xff\xff", r"relocations at 0x[0-9a-f]+ end outside of the file|bytes at 0x[0-9a-f]+ end outside"),
        (20 + 20, b"\xff\xff\xff\x7f", r"COFF header\+0x14: \d+ bytes at 0x7fffffff end outside of the file"),
    ],
)
def test_a_damaged_object_is_one_line(at: int, content: bytes, message: str) -> None:
    raw = bytearray(shop_object().read_bytes())
    raw[at : at + len(content)] = content
    with pytest.raises(FormatError, match=message):
        CoffObject(memoryview(bytes(raw)), "bad.obj")


def test_symbols_that_share_a_long_name_are_refused() -> None:
    header = pack("<HHIIIHH", AMD64, 0, 0, 20, 1000, 0, 0)
    symbols = pack("<2IIhHBB", 0, 4, 0, 0, 0x20, 2, 0) * 1000
    content = memoryview(header + symbols + pack("<I", 100_005) + b"n" * 100_000 + b"\0")
    with pytest.raises(FormatError, match=r"symbols\+0x0: names share the 100005 bytes of strings too often"):
        CoffObject(content, "bad.obj")
