"""What kernels share is the same compiled and uncompiled."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from icf._bytes import entry_at, leb, put_uleb, sign_extended, uleb, word

ROOT = Path(__file__).parents[2]


def _shared() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shared", ROOT / "tools" / "shared.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHARED = _shared()


@pytest.mark.parametrize("name", SHARED.SHARED)
def test_declarations_are_what_their_source_says(name: str) -> None:
    source = ROOT / (name.replace(".", "/") + ".py")
    assert source.with_suffix(".pxd").read_text() == SHARED.pxd_of(source)


@pytest.mark.parametrize("value", [0, 1, 0x7F, 0x80, 2**32, 2**56 + 3, 2**63, 2**64 - 1])
def test_numbers_of_64_bits(value: int) -> None:
    room = bytearray(10)
    end = put_uleb(room, 0, value)
    data = bytes(room[:end])
    assert uleb(data, 0, end) == leb(data, 0, end) == (value, end)
    assert uleb(data, 0, end - 1)[1] == leb(data, 0, end - 1)[1] == end  # cut short: beyond its end by one
    assert word(value.to_bytes(8, "little"), 0, 8) == value


def test_numbers_that_do_not_fit() -> None:
    wide = b"\xff" * 9 + b"\x02"  # 65 bits
    assert uleb(wide, 0, 10)[1] == 12
    assert leb(wide, 0, 10) == (2**63 - 1, 10)
    assert uleb(b"\x80" * 10 + b"\0", 0, 11)[1] == leb(b"\x80" * 10 + b"\0", 0, 11)[1] == 13


@pytest.mark.parametrize(
    ("data", "value"), [(b"\x7f", -1), (b"\x40", -64), (b"\x3f", 63), (b"\x80" * 9 + b"\x7f", -(2**63))]
)
def test_signs(data: bytes, value: int) -> None:
    found, end = leb(data, 0, len(data))
    assert sign_extended(found, data[-1], end) == value % 2**64


def test_entries_of_tables() -> None:
    table = bytes(32)
    assert [entry_at(table, 8, index, 8) for index in (0, 2, 3, 2**40, 2**64 - 1)] == [8, 24, 32, 32, 32]
    assert entry_at(table, 33, 0, 1) == 32
