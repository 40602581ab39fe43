"""Many names that are one long string, or end like it: reading them all would take hours."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from icf import cli
from icf.strings import hash_names, hash_table, share_too_much, texts

SHOP = Path(__file__).parents[2] / "testdata" / "shop" / "shop.gold"
SHDR = struct.Struct("<IIQQQQIIQQ")
SYMTAB = 2


def test_only_much_more_than_the_table_is_too_much() -> None:
    table = b"\0" + b"a" * 100_000 + b"\0"
    assert not share_too_much(table, np.ones(16, np.uint64), 24)
    assert share_too_much(table, np.ones(17, np.uint64), 24)
    assert share_too_much(table, np.arange(1, 1001, dtype=np.uint64), 24)
    assert not share_too_much(table, np.zeros(1 << 20, np.uint64), 24)
    assert not share_too_much(table, np.full(1 << 20, 1 << 40, np.uint64), 24)


def test_many_entries_may_share_a_short_name() -> None:
    assert not share_too_much(b"\0$x\0", np.ones(1 << 20, np.uint64), 24)


def test_a_string_without_an_end_counts() -> None:
    assert share_too_much(b"a" * 100_000, np.zeros(1_000, np.uint64), 24)


def test_a_string_that_is_named_again_is_the_same() -> None:
    table, starts = b"one\0two\0", np.array([0, 0, 4, 4, 1], np.uint64)
    assert texts(table, starts) == [b"one", b"one", b"two", b"two", b"ne"]
    assert hash_table(table, starts).tolist() == hash_names(["one", "one", "two", "two", "ne"]).tolist()


@pytest.mark.parametrize("verb", ["symbolize", "pass"])
def test_symbols_that_share_a_long_name(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(SHOP.read_bytes())
    (headers,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    sections = [list(SHDR.unpack_from(data, headers + idx * SHDR.size)) for idx in range(count)]
    symtab = next(section for section in sections if section[1] == SYMTAB)
    strtab = sections[symtab[6]]
    symbols, strings = (bytes(data[each[4] : each[4] + each[5]]) for each in (symtab, strtab))
    symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 1, symtab[3], 4) * 100_000
    strings += b"_Z" + b"A" * 100_000 + b"\0"
    for section, content in ((symtab, symbols), (strtab, strings)):
        section[4], section[5] = len(data), len(content)
        data += content
    for idx, section in enumerate(sections):
        SHDR.pack_into(data, headers + idx * SHDR.size, *section)
    path = tmp_path / "shared"
    path.write_bytes(data)
    options = {"symbolize": ["-e", str(path), "0x1000"], "pass": [str(path)]}
    assert cli.main([verb, *options[verb]]) == 1
    said = capsys.readouterr().err
    assert said == f"icf: error: {path}: .symtab+0x0: names share the {len(strings)} bytes of .strtab too often\n"
