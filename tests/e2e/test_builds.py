"""Other ways to build than `-O2 -g`: debug levels, LTO, no optimisation, another machine."""

from __future__ import annotations

import pytest

from tests.e2e.workshop import GOLD, LLD_ALONE, Workshop

gold = pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)

# clean-up code of both goes to `.cold` parts, which fold; what is left of the two differs
CLEAN_UP = """
    int total;
    struct Crate { NOINLINE ~Crate() { SAMPLE(); ++total; } };
    NOINLINE void apples(int n) { Crate crate; if (n) throw n; total += 3; }
    NOINLINE void pears(int n) { Crate crate; if (n) throw n; total += 4; }
    int main() {
        try { apples(1); } catch (int) { total += 5; }
        try { pears(2); } catch (int) { total += 6; }
        return 0;
    }
"""


@gold
@pytest.mark.parametrize("debug", ["-g", "-g1"])
def test_a_folded_cold_part_is_found_by_debug_information(workshop: Workshop, debug: str) -> None:
    program = workshop.build_with_tables(CLEAN_UP, flags=[debug])
    assert program.merged() == {frozenset({"_Z6applesi"}), frozenset({"_Z5pearsi"})}
    verdicts = program.check()
    assert "unmerged" not in verdicts["_Z6applesi"] | verdicts["_Z5pearsi"]


@gold
def test_where_a_cold_part_may_have_vanished_nothing_is_claimed(workshop: Workshop) -> None:
    program = workshop.build_with_tables(CLEAN_UP, flags=["-g0"])
    assert len(program.merged()) == 2
    parts = [frame for frames in program.resolve() for frame in frames if "_Z6applesi.cold" in frame["candidates"]]
    assert [part["verdict"] for part in parts] == ["ambiguous", "ambiguous"]


@pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE], ids=str, indirect=True)
@pytest.mark.parametrize("debug", ["-g", "-g0"])
def test_a_local_function_that_calls_itself_needs_no_relocation(workshop: Workshop, debug: str) -> None:
    program = workshop.build(
        """
        int total;
        static NOINLINE void apples(int depth) { if (depth) apples(depth - 1); else SAMPLE(); total += depth; }
        static NOINLINE void pears(int depth) { if (depth) pears(depth - 1); else SAMPLE(); total += depth; }
        int main(int argc, char **) { apples(argc + 2); pears(argc + 2); return 0; }
        """,
        flags=[debug],
    )
    assert program.merged() == {frozenset({"_ZL6applesi"}), frozenset({"_ZL5pearsi"})}
    program.add_tables("--icf-report", program.report, "--objects", workshop.folder / "main.o")
    verdicts = program.check()
    assert verdicts["_ZL6applesi"] == verdicts["_ZL5pearsi"] == {"unique"}
