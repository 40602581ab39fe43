"""Base relocations: all that llvm-readobj lists, and what is refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from struct import pack

import pytest

from icf.errors import FormatError
from icf.pe.headers import BASE_RELOCATIONS
from icf.pe.image import PeImage
from icf.pe.relocations import pointer_places
from tests.support.paths import ROOT
from tests.support.pe import BASE, code_image, of_pip
from tests.support.toolchain import tool


@pytest.mark.parametrize("name", ["shop.exe", "t64.exe"])
def test_places_are_those_of_llvm_readobj(name: str) -> None:
    path = ROOT / "testdata" / "pe" / name if name == "shop.exe" else of_pip(name)
    command = [str(tool("llvm-readobj")), "--coff-basereloc", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs = [int(rva, 16) for rva in re.findall(r"Type: DIR64\s+Address: (0x\w+)", text)]
    with PeImage.open(str(path)) as image:
        assert [place - image.base for place in pointer_places(image).tolist()] == sorted(theirs)
        assert len(theirs) > 5


def image_with(table: bytes, folder: Path) -> PeImage:
    content = bytearray(code_image(bytes(64), pdata=table, xdata=b""))
    directories = content.index(pack("<II", 0x3000, len(table))) - 8 * 3
    place = directories + 8 * BASE_RELOCATIONS
    content[place : place + 8] = pack("<II", 0x3000, len(table))
    (folder / "app.exe").write_bytes(content)
    return PeImage.open(str(folder / "app.exe"))


def test_padding_is_no_place(tmp_path: Path) -> None:
    table = pack("<2I4H", 0x2000, 16, 0xA008, 0xA010, 0x3018, 0) + pack("<2I2H", 0x1000, 12, 0xAFF8, 0)
    assert pointer_places(image_with(table, tmp_path)).tolist() == [BASE + 0x1FF8, BASE + 0x2008, BASE + 0x2010]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pack("<2I", 0x2000, 4), r"base relocations\+0x0: a block of 4 bytes, must be an even number from 8 on"),
        (pack("<2I2H", 0x2000, 13, 0, 0), r"base relocations\+0x0: a block of 13 bytes"),
        (pack("<2I2H", 0x2000, 14, 0, 0), r"base relocations\+0x8: needs 6 bytes, 4 are left"),
        (pack("<I", 0x2000), r"base relocations\+0x4: needs 4 bytes, 0 are left"),
    ],
)
def test_what_is_refused(table: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        pointer_places(image_with(table, tmp_path))
