"""Hashes of referenced strings: FNV-1a, the same in both builds."""

from __future__ import annotations

import random
from functools import reduce

import numpy as np

from icf import _strings
from icf.aliases import kin
from icf.strings import hash_table
from tests.support.builds import uncompiled

PURE = uncompiled(_strings)
INFO, STR, LINE_STR = b"\1in info\0x", b"main\0_Z3foov\0\xff\x80\0unended", b"line\0"


def fnv(data: bytes) -> int:
    return reduce(lambda value, byte: (value ^ byte) * 0x100000001B3 % 2**64, data, 0xCBF29CE484222325)


def hashes(
    references: list[int],
    info: bytes = INFO,
    str_: bytes = STR,
    line_str: bytes = LINE_STR,
    *,
    of_kin: bool = False,
) -> list[int]:
    both = []
    for module in (_strings, PURE):
        out = np.zeros(len(references), np.uint64)
        column = np.array(references, np.uint64)
        sections = info, memoryview(str_), line_str  # either will do
        assert module.hash_references(*sections, column.data, of_kin, out.data) == len(references)
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


def test_names_of_one_kin_have_one_hash() -> None:
    names = [
        b"_ZN3CatC1Ev",
        b"_ZN3CatC2Ev",
        b"_ZN3CatCI5Ev",
        b"_ZN3CatD4Ev.isra.0",
        b"_ZN3CatD0Ev",
        b".Lc1.C1",
        b"main.cold",
        b"main",
        b"CD12",
    ]
    expected = [b"_ZN3CatC?Ev", b"_ZN3CatC?Ev", b"_ZN3CatCI?Ev", b"_ZN3CatD?Ev", b"_ZN3CatD0Ev", b".Lc1"]
    expected += [b"main", b"main", b"CD?2"]
    offsets = [sum(len(name) + 1 for name in names[:idx]) for idx in range(len(names))]
    found = hashes([reference(2, at) for at in offsets], str_=b"\0".join(names) + b"\0", of_kin=True)
    assert found == [fnv(text) for text in expected]


def test_kins_by_hash_are_no_finer_than_kins_by_text() -> None:
    rng = random.Random(2)
    texts = ["".join(rng.choices(("C", "D", "I", "1", "2", "4", ".cold", ".isra.0", "x"), k=6)) for _ in range(4000)]
    found = hash_table(
        memoryview(b"\0".join(text.encode() for text in texts) + b"\0"),
        np.cumsum([0] + [len(text) + 1 for text in texts[:-1]], dtype=np.uint64),
        of_kin=True,
    )
    by_kin: dict[str, set[int]] = {}
    for text, value in zip(texts, found.tolist(), strict=True):
        by_kin.setdefault(kin(text), set()).add(value)
    assert all(len(values) == 1 for values in by_kin.values()) and len(by_kin) > 1000
