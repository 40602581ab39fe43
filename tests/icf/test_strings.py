"""Hashes of referenced strings: FNV-1a, the same in both builds."""

from __future__ import annotations

import random
from functools import reduce

import numpy as np

from icf import _strings
from tests.support.builds import uncompiled

PURE = uncompiled(_strings)
INFO, STR, LINE_STR = b"\1in info\0x", b"main\0_Z3foov\0\xff\x80\0unended", b"line\0"


def fnv(data: bytes) -> int:
    return reduce(lambda value, byte: (value ^ byte) * 0x100000001B3 % 2**64, data, 0xCBF29CE484222325)


def hashes(references: list[int], info: bytes = INFO, str_: bytes = STR, line_str: bytes = LINE_STR) -> list[int]:
    both = []
    for module in (_strings, PURE):
        out = np.zeros(len(references), np.uint64)
        column = np.array(references, np.uint64)
        sections = info, memoryview(str_), line_str  # either will do
        assert module.hash_references(*sections, column.data, out.data) == len(references)
        both.append(out.tolist())
    assert both[0] == both[1]
    return both[0]


def reference(kind: int, offset: int) -> int:
    return kind << 60 | offset


def test_kinds() -> None:
    found = hashes([0, *(reference(kind, 0) for kind in range(1, 16)), reference(1, 1)])
    assert found[:4] == [0, fnv(b"\1in info"), fnv(b"main"), fnv(b"line")]
    assert found[4:-1] == [0] * 12 and found[-1] == fnv(b"in info")
    assert fnv(b"foobar") == 0x85944171F73967E8  # from the reference tables of FNV


def test_offsets() -> None:
    """At an end, past it, and a string without end."""
    size_bytes = len(STR)
    asked = [5, 6, 4, 13, size_bytes - 1, size_bytes, size_bytes + 1, 2**32, 2**60 - 1]
    expected = [b"_Z3foov", b"Z3foov", b"", b"\xff\x80", b"d", b"", b"", b"", b""]
    assert hashes([reference(2, offset) for offset in asked]) == [fnv(data) for data in expected]
    assert hashes([reference(2, STR.index(b"unended"))]) == [fnv(b"unended")]
    assert hashes([reference(kind, 0) for kind in (1, 2, 3)], b"", b"", b"") == [fnv(b"")] * 3


def test_random() -> None:
    rng = random.Random(1)
    data = bytes(rng.choice((0, rng.randrange(256))) for _ in range(2000))
    offsets = [rng.randrange(2100) for _ in range(500)]
    assert hashes([reference(3, at) for at in offsets], line_str=data) == [
        fnv(data[at:].split(b"\0")[0]) for at in offsets
    ]
