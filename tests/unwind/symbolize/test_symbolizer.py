"""The symbolizer on a program that has its tables: `shop`, of testdata."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import unwind.symbolize.symbolizer
from icf.model import Verdict
from tests.e2e.program import icf
from tests.support.paths import ROOT
from unwind.program.frame import Frame
from unwind.symbolize.answer import Answer
from unwind.symbolize.reasons import NO_FUNCTION
from unwind.symbolize.styles import Options, TextWriter, joined
from unwind.symbolize.styles_json import JsonWriter
from unwind.symbolize.symbolizer import Symbolizer

SHOP = ROOT / "testdata" / "shop" / "shop.gold"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = Path(shutil.copy(SHOP, tmp_path_factory.mktemp("shop") / "shop"))
    icf("pass", image)
    return image


@pytest.fixture(scope="module")
def symbolizer(shop: Path) -> Iterator[Symbolizer]:
    with Symbolizer.open(shop) as opened:
        yield opened


def start_of(symbolizer: Symbolizer, name: str) -> int:
    [start] = symbolizer.addresses(name)
    return start


def test_the_example_runs(shop: Path, symbolizer: Symbolizer, capsys: pytest.CaptureFixture[str]) -> None:
    example = dedent(re.findall(r"\n\n((?:    .*\n|\n)+)", unwind.symbolize.symbolizer.__doc__ or "")[0])
    start = start_of(symbolizer, "main")
    exec(example.replace('"shop"', repr(str(shop))).replace("0x9f8", hex(start)), {})
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("main at ") and re.search(r"/main.cpp:\d+:\d+$", out[0])
    candidates = {line.removeprefix("  one of ") for line in out if "one of" in line}
    assert candidates == {"List<Order>::grow()", "List<Payment>::grow()", "List<Session>::grow()"}


def test_a_function_alone_is_unmerged(symbolizer: Symbolizer) -> None:
    start = start_of(symbolizer, "main")
    found = symbolizer.symbolize(start)
    assert (found.verdict, found.start, found.candidates, found.is_complete) == (Verdict.UNMERGED, start, (), True)
    assert found.frames[-1].linkage_name == "main" and found.frames[-1].name == "main"
    assert found.size_bytes > 0 and symbolizer.symbolize(start + found.size_bytes).start != start


def test_no_function_is_unknown(symbolizer: Symbolizer) -> None:
    for vaddr in (0, 1, 1 << 40, (1 << 64) - 1):
        found = symbolizer.symbolize(vaddr)
        assert (found.address, found.verdict, found.reason) == (vaddr, Verdict.UNKNOWN, NO_FUNCTION)
        assert (found.linkage_name, found.size_bytes, found.frames, found.candidates) == (None, 0, (), ())
    assert symbolizer.addresses("no_such_function") == []


def test_folded_functions_are_candidates_with_their_own_lines(symbolizer: Symbolizer) -> None:
    start = start_of(symbolizer, "_ZN4ListI7PaymentE4growEv")
    assert start == start_of(symbolizer, "_ZN4ListI5OrderE4growEv")
    found = symbolizer.symbolize(start)
    assert found.verdict is Verdict.AMBIGUOUS and found.is_complete
    assert [each.frames[-1].linkage_name for each in found.candidates] == [
        each.linkage_name for each in found.candidates
    ]
    assert len(found.candidates) == 3
    # one template: its instances are on one line
    assert {each.frames[-1].line for each in found.candidates} == {found.frames[-1].line} != {0}
    assert found.frames[-1].linkage_name == ""


def test_many_are_as_one(symbolizer: Symbolizer) -> None:
    vaddrs = [*range(0, 0x2000, 3), 1 << 63]
    many = symbolizer.symbolize_many(iter(vaddrs))
    for vaddr, found in zip(vaddrs, many, strict=True):
        alone = symbolizer.symbolize(vaddr)
        for field in ("address", "vaddr", "start", "size_bytes", "linkage_name", "frames", "is_complete"):
            assert getattr(found, field) == getattr(alone, field)
        assert [each.frames for each in found.candidates] == [each.frames for each in alone.candidates]
    assert {found.verdict for found in many} == {Verdict.UNKNOWN, Verdict.UNMERGED, Verdict.AMBIGUOUS}


@pytest.mark.parametrize("form", ["llvm", "llvm-gnu", "addr2line", "json"])
@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(pretty=True),
        Options(functions="none", basenames=True),
        Options(functions="short", inlines=False),
        Options(pretty=True, addresses=True),
    ],
)
def test_text_of_many_is_that_of_each(symbolizer: Symbolizer, form: str, options: Options) -> None:
    vaddrs = [*range(0, 0x2000, 5), (1 << 64) - 1]
    asked = [vaddr + 1 & (1 << 64) - 1 for vaddr in vaddrs]
    for candidates in (False, True):
        asking = options._replace(form=form, candidates=candidates, pretty=options.pretty and form != "json")
        writer = JsonWriter(asking) if form == "json" else TextWriter(asking)
        many = list(writer.addresses(symbolizer, vaddrs, asked, "shop"))
        each = [writer.address(symbolizer.symbolize(*at[:1]), at[1], "shop") for at in zip(vaddrs, asked, strict=True)]
        assert len(many) < len(each) and "".join(many) == "".join(each)


def test_names_are_joined_up_to_a_limit(symbolizer: Symbolizer) -> None:
    grow = symbolizer.symbolize(start_of(symbolizer, "_ZN4ListI5OrderE4growEv"))
    names = "List<Order>::grow() | List<Payment>::grow() | List<Session>::grow()"
    writer = TextWriter(Options())
    assert writer.address(grow, grow.vaddr, "shop").splitlines()[-3 if grow.frames[1:] else 0] == names
    assert joined(["a", "b", "a"], True, str.upper) == "A | B"
    assert joined([*map(str, range(5))], True, str) == "0 | 1 | 2 | 3 | 4"
    assert joined([*map(str, range(90))], False, str) == "0 | 1 | 2 | 3 | 86 more | ?"


def test_json_lists_the_candidates(symbolizer: Symbolizer) -> None:
    grow = symbolizer.symbolize(start_of(symbolizer, "_ZN4ListI5OrderE4growEv"))
    text = JsonWriter(Options()).address(grow, grow.vaddr, "shop")
    assert '"Candidates":[{"FunctionName":"List<Order>::grow()","LinkageName":"_ZN4ListI5OrderE4growEv"},' in text
    assert text.endswith('],"CandidatesComplete":true}\n')


@pytest.mark.parametrize("odd", ['say "a"', "a\\b", "a\nb\tc", "\x7f", "caf\xe9", "\udc80", "\U0001f600", ""])
def test_json_of_odd_names_is_json(odd: str) -> None:
    found = Answer(3, None, odd, 3, 1, 4, (Frame(odd, f"{odd}/x.cc", 7, 9, False),))
    for options in (Options(), Options(pretty=True)):
        writer = JsonWriter(options)
        answer = json.loads(writer.address(found, 3, odd))
        assert (answer["ModuleName"], answer["Symbol"][0]["FileName"]) == (odd, f"{odd}/x.cc")
        assert answer["Symbol"][0]["FunctionName"] == odd
        assert json.loads(writer.function([found], odd, odd))["SymName"] == odd
