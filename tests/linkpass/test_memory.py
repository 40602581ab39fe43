"""The memory of the pass grows with the debug information, by a stated multiple and no more.

Programs with much debug information take long to compile, so the units of a small one are repeated: thousands of
units that describe the same functions, as in a program whose headers are in every file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from icf.elf.image import Image
from linkpass.rewrite import SectionGrowth, rewrite

SHOP = Path(__file__).resolve().parents[2] / "testdata" / "shop"
BASE_BYTES, MULTIPLE = 80 << 20, 3  # as README has it


def peak_bytes(image: Path, out: Path) -> int:
    """The most memory that `icf pass` has at a time, the mapped file included."""
    command = [sys.executable, "-m", "icf", "pass", "-q", str(image), "-o", str(out)]
    pid = os.posix_spawn(sys.executable, command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return usage.ru_maxrss << 10


@pytest.mark.parametrize("name", ["shop.gold", "shop.lld"])
def test_memory_is_a_multiple_of_the_debug_information(name: str, tmp_path: Path) -> None:
    small, large, out = SHOP / name, tmp_path / "large", tmp_path / "out"
    with Image.open(small) as image:
        units = bytes(image.contents(".debug_info"))
        info_bytes = (32 << 20) // len(units) * len(units)
        rewrite(image, large, [], [SectionGrowth(".debug_info", units * (info_bytes // len(units) - 1))])
    assert peak_bytes(small, out) < BASE_BYTES
    assert peak_bytes(large, out) < BASE_BYTES + MULTIPLE * info_bytes
