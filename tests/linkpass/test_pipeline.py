"""The pass as a whole: what it leaves alone, what it writes twice the same, what a failure leaves behind."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.elf.types import SHDR
from icf.errors import IcfError
from linkpass.pipeline import Options, run_pass

SHOP = Path(__file__).resolve().parents[2] / "testdata" / "shop"


def test_an_output_that_fails_its_check_replaces_nothing(tmp_path: Path) -> None:
    path = Path(shutil.copy(SHOP / "shop.lld", tmp_path))
    with Image.open(path) as image:
        data = image.section(".data")
        assert data is not None
        header = image.headers.shoff + data.index * SHDR.size
    damaged = bytearray(path.read_bytes())
    damaged[header + 24 : header + 32] = (0x28).to_bytes(8, "little")  # sh_offset: in the ELF header, at e_shoff
    path.write_bytes(damaged)
    with pytest.raises(IcfError, match=rf"^{path}: contents of section \.data differ from {path}$"):
        run_pass(str(path), Options())
    assert path.read_bytes() == damaged
    assert os.listdir(tmp_path) == [path.name]
