"""The report of a folded program: its numbers are those of the same program without folding."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from typing import Any

import pytest

from icf.demangle import demangle
from tests.e2e.fruit import FRUIT
from tests.e2e.program import Program, icf
from tests.e2e.workshop import LLD, Toolchain, Workshop
from tests.support.toolchain import tool

POINTERS = """
    int total;
    NOINLINE void apples() { SAMPLE(); ++total; }
    NOINLINE void pears() { SAMPLE(); ++total; }
    NOINLINE void plums() { SAMPLE(); ++total; }
    void (*volatile fruit[])() = {apples, pears};
    int main() { fruit[0](); fruit[1](); plums(); return total != 3; }
"""

HOT = """
    volatile int total;
    NOINLINE void apples(int count) { for (int i = 0; i < count; ++i) total = total + i; }
    NOINLINE void pears(int count) { for (int i = 0; i < count; ++i) total = total + i; }
    NOINLINE void quarter() { apples(300000); total = 0; }
    NOINLINE void rest() { pears(900000); total = 1; }
    int main() { for (int i = 0; i < 200; ++i) { quarter(); rest(); } return 0; }
"""


def report_of(program: Program) -> dict[str, Any]:
    """Return the report of the stacks that the folded program prints."""
    stacks = program.folded.with_name("stacks")
    stacks.write_text("".join(f"{stack}\n" for stack in program.stacks()))
    read: dict[str, Any] = json.loads(icf("report", "-e", program.folded, stacks, "--json"))
    return read


def true_totals(program: Program) -> Counter[str]:
    """Return how many stacks each function stands in."""
    totals: Counter[str] = Counter()
    for stack in program.truth():
        totals.update({demangle(min(names)) for names in stack if names})
    return totals


def merged(program: Program) -> set[str]:
    return {demangle(min(names)) for names in program.merged()}


def test_totals_are_those_of_the_program_without_folding(workshop: Workshop) -> None:
    program = workshop.build_with_tables(FRUIT)
    document = report_of(program)
    profile, truth = document["profile"], true_totals(program)
    after = {each["name"]: each["total_after"] for each in profile["functions"]}
    before = {each["name"]: each["total_before"] for each in profile["functions"]}
    fruit = merged(program)
    assert {name: after[name] for name in fruit} == {name: truth[name] for name in fruit}
    kept = {each["functions"][0]["name"] for each in document["bodies"]}
    assert {name for name in fruit if before[name]} == kept and len(kept) == 2
    assert {before[name] for name in kept} == {3}  # all stacks are those of the kept ones
    wrong = sum(any(demangle(min(names)) in fruit - kept for names in stack if names) for stack in program.truth())
    assert profile["changed"] == wrong
    assert not any(each["is_open"] for each in profile["functions"] if each["name"] in fruit)
    assert profile["settled_frames"] == sum(truth[name] for name in fruit)
    (image,) = document["images"]
    assert image["open_bodies"] == 0 and image["functions"] == 4
    sizes = [each["size_bytes"] for each in document["bodies"]]
    assert image["saved_bytes"] == sum(sizes)  # of each two functions one body


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_frames_that_stay_open_are_counted_by_reason(workshop: Workshop) -> None:
    program = workshop.build_with_tables(POINTERS)
    document = report_of(program)
    profile = document["profile"]
    (body,) = [each for each in document["bodies"] if each["function_count"] == 3]
    assert "pointers" in body["doubts"]
    assert [each["pointed_at"] for each in sorted(body["functions"], key=lambda each: each["name"])] == [
        True,
        True,
        False,
    ]
    assert (body["settled"], body["open"]) == (1, 2) == (profile["settled_frames"], profile["open_frames"])
    assert body["reasons"] == {"indirect-call": 2}
    (reason,) = profile["reasons"]
    assert (reason["reason"], reason["weight"]) == ("indirect-call", 2)
    after = {each["name"]: each["total_after"] for each in profile["functions"]}
    assert after["plums()"] == 1
    assert after.get("apples() | pears()", 0) + after.get("pears() | apples()", 0) == 2


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_a_recording_of_perf(workshop: Workshop, toolchain: Toolchain) -> None:
    """Two loops that are one body take a quarter and three quarters of the time."""
    perf = tool("perf")
    program = workshop.build_with_tables(HOT, flags=("-fno-omit-frame-pointer",))
    data = program.folded.with_name("perf.data")
    recorded = subprocess.run(
        [perf, "record", "-q", "-e", "cpu-clock", "-F", "4999", "--call-graph", "fp", "-o", data, program.folded],
        capture_output=True,
        text=True,
    )
    if recorded.returncode or not data.exists():
        pytest.skip(f"perf cannot record here: {recorded.stderr.strip()}")
    profile = json.loads(icf("report", data, "--json"))["profile"]
    functions = {each["name"]: each for each in profile["functions"]}
    apples, pears = functions["apples(int)"], functions["pears(int)"]
    total = apples["total_after"] + pears["total_after"]
    assert total > 0.8 * profile["weight"]
    assert apples["total_after"] / total == pytest.approx(0.25, abs=0.08)
    before = [each["total_before"] for each in (apples, pears)]
    assert min(before) == 0 and max(before) >= total
