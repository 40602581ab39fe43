"""What a section header says of data that the file does not have costs nothing."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from icf.code.pointers import find_pointers
from icf.elf.image import Image
from icf.elf.types import SHDR, SHT_NOBITS
from tests.support.paths import ROOT
from unwind.program.constant_data import find_constants

SHOP = ROOT / "testdata/shop/shop.gold"
PLACES = {"type": (4, 4), "vaddr": (16, 8), "size_bytes": (32, 8)}  # in a section header


def changed(out: Path, name: str, **fields: int) -> Path:
    """A copy of the program with other values in the header of a section."""
    content = bytearray(SHOP.read_bytes())
    with Image.open(SHOP) as image:
        section = next(section for section in image.sections if section.name == name)
        at = image.headers.shoff + section.index * SHDR.size
    for field, value in fields.items():
        offset, width = PLACES[field]
        content[at + offset : at + offset + width] = value.to_bytes(width, "little")
    out.write_bytes(content)
    return out


@pytest.mark.parametrize("size_bytes", [3 << 30, 1 << 62])
@pytest.mark.parametrize("name", [".rodata", ".got"])
def test_a_section_without_bytes_has_no_constants(name: str, size_bytes: int, tmp_path: Path) -> None:
    path = changed(tmp_path / "bomb", name, type=SHT_NOBITS, size_bytes=size_bytes)
    tracemalloc.start()
    with Image.open(path) as image:
        find_constants(image)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 4 << 20


@pytest.mark.parametrize("size_bytes", [0, 1])
def test_data_at_the_end_of_the_address_space(size_bytes: int, tmp_path: Path) -> None:
    path = changed(tmp_path / "edge", ".data", vaddr=(1 << 64) - 1, size_bytes=size_bytes)
    with Image.open(path) as image:
        find_constants(image)
        assert len(find_pointers(image, np.array([image.entry], np.uint64)).place)
