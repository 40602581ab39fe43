"""Jumps out of functions are found wherever the code is divided into parts."""

from __future__ import annotations

import numpy as np
import pytest

from icf.code import landings


@pytest.mark.parametrize(("jumps_in", "part_bytes"), [(landings._x86_64, 7), (landings._aarch64, 8)])
def test_parts_of_code_have_the_jumps_of_the_whole(jumps_in: landings.JumpsIn, part_bytes: int) -> None:
    code = np.random.default_rng(1).integers(0, 256, 4099, np.uint8)
    code[::5] = np.random.default_rng(2).choice(np.array([0x0F, 0x84, 0xE9, 0xEB, 0x14, 0x54], np.uint8), 820)
    found = []
    for begin in range(0, len(code), part_bytes):
        found += rows(*jumps_in(code, begin, min(begin + part_bytes, len(code))))
    whole = rows(*jumps_in(code, 0, len(code)))
    assert len(whole) > 50
    assert sorted(found) == sorted(whole)


def rows(*columns: np.ndarray) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))
