"""Whatever stands on stdin, and whatever a symbol is called, gets an answer."""

from __future__ import annotations

import io
import random
import sys
from contextlib import redirect_stdout
from tempfile import TemporaryFile

import pytest

from icf import cli
from icf.demangle import demangle, short_name
from tests.fuzz.limits import many
from tests.support.paths import ROOT
from unwind.symbolize.requests import read_hexadecimal, read_request

SHOP = ROOT / "testdata" / "shop" / "shop.gold"
U64 = 1 << 64
COUNT = many(5_000)
WORDS = [
    "CODE ",
    "FRAME ",
    "FILE:",
    "BUILDID:",
    "'",
    '"',
    " ",
    "\t",
    "0x",
    "88e",
    "9" * 30,
    "f",
    "+",
    "main",
    "/",
    "\0",
    "\u0661",
]
LEADS = ["_Z", "_ZN", "_R", "_RNv", "$s", "$s4main", "_Z3foo", "main"]
PIECES = [
    "_Z",
    "N",
    "I",
    "E",
    "S_",
    "T_",
    "3foo",
    "C1",
    "v",
    "Nv",
    "Cs",
    "17h0123456789abcdef",
    "$LT$",
    "Si",
    "F",
    ".cold",
]
PIECES += ["ls", "cv", "(", ")", "<", "\udcff", "operator"]


def lines_of(chance: random.Random) -> str:
    return "".join(chance.choices(WORDS, k=chance.randint(0, 6)))


def test_lines_are_requests() -> None:
    chance = random.Random(1)
    outcomes = [0, 0, 0]
    for _ in range(COUNT):
        line = lines_of(chance)
        for request in (read_hexadecimal(line), read_request(line, True), read_request(line, False)):
            assert request.address is None or (0 <= request.address < U64 and not request.symbol)
            assert request.offset >= 0
            outcomes[0 if request.address is not None else 1 if request.symbol else 2] += 1
    assert min(outcomes) > COUNT // 20


@pytest.mark.parametrize("style", ["llvm", "gnu", "json"])
def test_every_line_has_an_answer(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(2)
    lines = [lines_of(chance).encode() for _ in range(many(500))] + [b"\xff\xfe", b"main+0xffffffffffffffffffff"]
    with TemporaryFile() as stdin, redirect_stdout(io.StringIO()) as out:
        stdin.write(b"".join(line + b"\n" for line in lines))
        stdin.seek(0)
        monkeypatch.setattr(sys, "stdin", stdin)
        assert cli.main(["symbolize", "-e", str(SHOP), "--style", style, "--no-inlines"]) == 0
    assert out.getvalue().count("\n") == (3 if style == "llvm" else 1) * len(lines)


def test_names_are_demangled_or_left() -> None:
    chance = random.Random(3)
    changed = 0
    for _ in range(COUNT):
        name = chance.choice(LEADS) + "".join(chance.choices(PIECES, k=chance.randint(0, 8)))
        changed += demangle(name) != name
        assert demangle(name) and short_name(name)
    assert COUNT // 50 < changed < COUNT
