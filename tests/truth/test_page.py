"""The page of accuracy, on plain data; the symbolizers that it shows beside `icf`, on a small program."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.support import toolchain
from tests.truth.align import Alignment, Frame, Stack
from tests.truth.kinds import Kind
from tests.truth.measure import Measurement, Result
from tests.truth.page import PARTS, Part, Ran, evidence_lines, page, peer_lines, run_part
from tests.truth.peers import PEERS
from tests.truth.records import Records
from tests.truth.score import Score
from tests.truth.table import record_lines

SOURCE = """
namespace N { __attribute__((noinline)) int twice(int n) { return n * 2 + (int)(long)&n; } }
static inline __attribute__((always_inline)) int inlined(int n) { return N::twice(n) + 1; }
int main(int count, char **) { return inlined(count) + N::twice(3); }
"""
NAMES = ("main", "_ZN1N5twiceEi")


def score(right: int, wrong: int = 0) -> Score:
    return Score(merged=Counter({"right": right, "no claim": 100 - right - wrong, "wrong": wrong}))


MEASURED = Measurement(
    "gen",
    Kind("clang", "lld", ("image", "objects")),
    Alignment(),
    7,
    [Result("image", score(60)), Result("objects", score(90, 1), without_vptr=score(50), with_vptr=score(99))],
    {"llvm-symbolizer": score(8), "gdb": score(9)},
)


def test_each_line_has_what_others_name_of_the_same_frames() -> None:
    assert list(peer_lines([MEASURED]))[2:] == [
        "| gen, clang, lld | 100 | image | 60 % | 0 | 8 % |  | 9 % |",
        "| gen, clang, lld | 100 | objects | 90 % | 1 | 8 % |  | 9 % |",
    ]


def test_what_an_evidence_adds_is_against_the_one_above() -> None:
    assert list(evidence_lines([MEASURED]))[2:] == [
        "| gen, clang, lld | image | 60 % |  |  |  |",
        "| gen, clang, lld | objects | 90 % | +30.0 | 50 % | 99 % |",
    ]


def test_records_are_summed_over_the_builds_of_a_program() -> None:
    records = Records()
    for outcome in ("right", "right", "open", "wrong"):
        records.add("calls", outcome)
    result = Result("image", score(60), records=records, walks=score(70))
    assert result.is_wrong and Result("image", score(60), walks=score(70, 1)).is_wrong
    one = Measurement("gen", Kind("clang", "lld", ("image",)), Alignment(), 7, [result])
    other = Measurement("gen", Kind("gcc", "lld", ("image",)), Alignment(), 7, [result])
    *_, line = record_lines([one, other])
    assert line.split(" | ")[1:4] == ["nothing", "0 / 0 / 0 / 0", "4 / 2 / 0 / 2"]
    assert line.split(" | ")[-1] == "140 / 0 / 60 / 0 |"


def test_the_page_has_all_parts() -> None:
    text = page([MEASURED], {name: Ran(f"rows of {name}\n", 0, 1.0) for name in PARTS}, [("icf", "0.1")])
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert titles[:3] == ["What ran", "Beside other tools", "What each evidence adds"]
    assert titles[-len(PARTS) :] == [part.title for part in PARTS.values()]
    assert "```text\nrows of damaged\n```" in text and "| icf | 0.1 |" in text


def test_a_part_that_fails_shows_why(tmp_path: Path) -> None:
    ran = run_part(Part("", ("tests.truth.modules", "--program", "no-such"), ""), tmp_path)
    assert ran.status == 2 and "no-such" in ran.text


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_names_the_function_and_not_what_is_inlined(peer: str, tmp_path: Path) -> None:
    toolchain.tool(peer)
    linked = toolchain.link(tmp_path / "a", "bfd", toolchain.compile_object(SOURCE, "-O1", "-g"))
    with Image.open(linked) as image:
        symbols = image.symbols
        names = [symbols.name_at(int(at)) for at in symbols.name_offset]
        bounds = {
            name: (int(symbols.value[names.index(name)]), int(symbols.size_bytes[names.index(name)])) for name in NAMES
        }
    expected = {vaddr: name for name, (start, size) in bounds.items() for vaddr in range(start, start + size)}
    frames = [Frame(vaddr, vaddr, vaddr, vaddr, (), (), is_exact=True) for vaddr in expected]
    assert PEERS[peer](linked, [Stack(tuple(frames))]) == expected
