"""Call sites in YAML for llvm-gsymutil: what its schema says, and which calls are left out."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from icf.callsites import CallSite, call_sites, yaml_lines
from icf.cli import main
from icf.elf.image import Image
from icf.model import PointerJump, Vaddr
from icf.tables.dcall import DirectCalls
from icf.tables.icftable import IcfTable
from icf.tables.load import Tables, load_tables
from linkpass import Options, run_pass
from tests.support.paths import ROOT

# what LLVM's MappingTraits of FunctionsYAML, FunctionYAML and CallSiteYAML take, as a line each
SCHEMA = re.compile(
    r"functions:(?: \[\])?\n"
    r"(?:  - name: '(?:[^']|'')+'\n"
    r"    callsites:\n"
    r"(?:      - return_offset: 0x[0-9a-f]+\n"
    r"        match_regex: \['(?:[^']|'')+'(?:, '(?:[^']|'')+')*\]\n"
    r"        flags: \[(?:InternalCall|ExternalCall)\]\n)+)*"
)
GROW = tuple(f"_ZN4ListI{each}E4growEv" for each in ("5Order", "7Payment", "7Session"))
ADD = tuple(f"_ZN4ListI{each}" for each in ("5OrderE3addEPS0_", "7PaymentE3addEPS0_", "7SessionE3addEPS0_"))
PLACE, POST, OPEN = "_ZN9OrderBook5placeEP5Order", "_ZN6Ledger4postEP7Payment", "_ZN8Sessions4openEP7Session"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = Path(shutil.copy(ROOT / "testdata" / "shop" / "shop.lld", tmp_path_factory.mktemp("shop") / "shop"))
    run_pass(str(image), Options())
    return image


@pytest.fixture
def image(shop: Path) -> Iterator[Image]:
    with Image.open(shop) as image:
        yield image


@pytest.fixture
def tables(image: Image) -> Tables:
    return load_tables(image)


def test_a_merged_caller_stands_for_all_of_its_members(tables: Tables, image: Image) -> None:
    found = call_sites(tables, image)
    assert found[ADD[0]] == [CallSite(0x1C, GROW)]
    assert found[PLACE] == [CallSite(0xE, ADD[:2])]
    assert set(found) == {ADD[0], PLACE, "main"}


def test_a_tail_call_leads_on(tables: Tables, image: Image) -> None:
    assert call_sites(tables, image)["main"] == [
        CallSite(0x60, (ADD[2], OPEN)),
        CallSite(0x6F, (PLACE,)),
        CallSite(0x80, (POST,)),
    ]


def test_a_callee_that_jumps_through_a_pointer_is_left_out(tables: Tables, image: Image) -> None:
    icf = tables.icf
    opened = IcfTable(icf.classes, icf.tail_calls, icf.evidence, pointer_jumps=[PointerJump(Vaddr(0x1B93), -1)])
    assert [site.return_offset for site in call_sites(replace(tables, icf=opened), image)["main"]] == [0x6F, 0x80]


def test_a_merged_caller_with_a_member_whose_call_is_not_recorded_is_left_out(tables: Tables, image: Image) -> None:
    calls = tables.direct
    rows = zip(calls.call_site.tolist(), calls.callee_die.tolist(), calls.caller_die.tolist(), strict=True)
    fewer = DirectCalls.of([row for row in rows if tables.die_name(row[2]) != POST])
    assert set(call_sites(replace(tables, direct=fewer), image)) == {ADD[0], "main"}


def test_a_call_outside_of_all_functions_is_left_out(tables: Tables, image: Image) -> None:
    die = tables.icf.classes[0].members[0].die
    nowhere = DirectCalls.of([(0x10, die, die), (1 << 40, die, die)])
    assert call_sites(replace(tables, direct=nowhere), image) == {}


def test_names_are_escaped() -> None:
    text = "".join(f"{line}\n" for line in yaml_lines({"it's": [CallSite(31, ("f.llvm.1$x", "g"))]}))
    assert SCHEMA.fullmatch(text)
    assert "- name: 'it''s'" in text and "return_offset: 0x1f" in text
    assert r"match_regex: ['^f\.llvm\.1\$x$', '^g$']" in text


def test_names_that_a_terminal_would_act_on_are_escaped() -> None:
    (_, line, *_) = yaml_lines({"f\x1b[2J\n\u202e\udcff": [CallSite(31, ())]})
    assert line == '  - name: "f\\u001b[2J\\n\\u202e\\\\xff"'


def test_the_command_prints_what_the_schema_allows(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "--callsites-yaml", str(shop)]) == 0
    text = capsys.readouterr().out
    assert SCHEMA.fullmatch(text) and text.count("return_offset") == 5
    assert main(["dump", "--callsites-yaml", str(ROOT / "testdata" / "shop" / "shop.lld")]) == 0
    assert capsys.readouterr().out == "functions: []\n"


def test_gold_leaves_each_member_its_own_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = Path(shutil.copy(ROOT / "testdata" / "shop" / "shop.gold", tmp_path / "shop"))
    run_pass(str(image), Options())
    assert main(["dump", "--callsites-yaml", str(image)]) == 0
    text = capsys.readouterr().out
    assert SCHEMA.fullmatch(text)
    own = dict(re.findall(r"name: '(\S+3addEPS0_)'\n.*\n.*\n        match_regex: \[(.*)\]", text))
    assert own == {add: f"'^{grow}$'" for add, grow in zip(ADD, GROW, strict=True)}
