"""Copies of a process: memory in stacks and single words, and which words point to memory of the process."""

from __future__ import annotations

from struct import pack

import numpy as np

from unwind.dumps.live import LiveMemory, _pointed_to
from unwind.process.maps import parse_maps

MAPS = b"""\
1000-2000 rw-p 00000000 00:00 0 [heap]
2000-3000 r--p 00000000 00:00 0
5000-6000 rw-s 00000000 00:05 7 /dev/gpu
8000-9000 rw-p 00000000 00:00 0 [stack]
"""


def test_memory_is_stacks_and_single_words() -> None:
    memory = LiveMemory({0x8000: b"abcdefgh" * 4, 0x9000: b"x" * 16}, {0x1008: 0x1234})
    assert memory.extent(0x8008) == (0x8000, 0x8020) and bytes(memory.view(0x8008, 0x800A)) == b"ab"
    assert memory.extent(0x8020) is None and memory.extent(0x7FFF) is None
    assert memory.extent(0x1008) == (0x1008, 0x1010)
    assert bytes(memory.view(0x1008, 0x1010)) == pack("<Q", 0x1234)
    assert memory.extent(0x100C) is None


def test_words_point_to_private_memory_that_can_be_written() -> None:
    words = pack("<9Q", 0x1008, 0x1FF8, 0x2000, 0x5008, 0x8010, 0x1009, 0, (1 << 64) - 8, 0x1008)
    found = _pointed_to((words[:24], words[24:]), parse_maps(MAPS, "maps"))
    assert found.tolist() == [0x1008, 0x1FF8, 0x8010] and found.dtype == np.uint64
    assert _pointed_to((words,), []).tolist() == []
