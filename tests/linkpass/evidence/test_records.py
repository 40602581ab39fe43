"""Merging evidence: the best that knows a record has it, and who contradicts himself is not believed."""

from __future__ import annotations

from collections import Counter

from icf.model import Evidence
from linkpass.evidence.records import Records, Statements
from linkpass.linked import Place

MAIN, APPLES, PEARS = Place(0x1000, 0), Place(0x2000, 0), Place(0x2000, 1)


def statements(evidence: Evidence, *calls: tuple[int, Place, Place]) -> Statements:
    made = Statements(evidence)
    for site, caller, callee in calls:
        made.state((site, caller), frozenset({callee}), is_jump=False)
    return made


def test_the_first_witness_has_the_record() -> None:
    records = Records()
    records.merge(statements(Evidence.RELOCATION, (0x1005, MAIN, APPLES)))
    records.merge(statements(Evidence.DWARF, (0x1005, MAIN, PEARS), (0x100A, MAIN, PEARS)))
    assert records.calls == {
        (0x1005, MAIN): (APPLES, Evidence.RELOCATION),
        (0x100A, MAIN): (PEARS, Evidence.DWARF),
    }
    assert not records.dropped


def test_callers_that_share_a_body_have_records_of_their_own() -> None:
    records = Records()
    records.merge(statements(Evidence.DWARF, (0x2005, APPLES, APPLES), (0x2005, PEARS, PEARS)))
    assert records.calls == {
        (0x2005, APPLES): (APPLES, Evidence.DWARF),
        (0x2005, PEARS): (PEARS, Evidence.DWARF),
    }


def test_a_contradiction_cancels_a_record_and_is_counted() -> None:
    records = Records()
    records.merge(statements(Evidence.DWARF, (0x1005, MAIN, APPLES), (0x1005, MAIN, PEARS), (0x100A, MAIN, PEARS)))
    assert records.calls == {(0x100A, MAIN): (PEARS, Evidence.DWARF)}
    assert records.dropped == Counter({"dwarf: contradict each other": 1})


def test_the_same_statement_twice_is_no_contradiction() -> None:
    records = Records()
    records.merge(statements(Evidence.DWARF, (0x1005, MAIN, APPLES), (0x1005, MAIN, APPLES)))
    assert records.calls == {(0x1005, MAIN): (APPLES, Evidence.DWARF)}


def test_no_weaker_witness_fills_the_gap_that_a_contradiction_leaves() -> None:
    records = Records()
    records.merge(statements(Evidence.RELOCATION, (0x1005, MAIN, APPLES), (0x1005, MAIN, PEARS)))
    records.merge(statements(Evidence.DWARF, (0x1005, MAIN, APPLES)))
    assert records.calls == {}


def test_a_better_record_outlives_a_weaker_contradiction() -> None:
    records = Records()
    records.merge(statements(Evidence.RELOCATION, (0x1005, MAIN, APPLES)))
    records.merge(statements(Evidence.DWARF, (0x1005, MAIN, APPLES), (0x1005, MAIN, PEARS)))
    assert records.calls == {(0x1005, MAIN): (APPLES, Evidence.RELOCATION)}


def test_jumps_are_kept_apart_from_calls_and_loops_add_up() -> None:
    first, second = Statements(Evidence.RELOCATION), Statements(Evidence.DWARF)
    first.jumps[0x1005, MAIN] = frozenset({APPLES})
    first.not_calls.add((0x2005, APPLES))
    second.calls[0x1005, MAIN] = frozenset({PEARS})
    second.not_calls.add((0x2005, PEARS))
    second.dropped["out of place"] = 2
    records = Records()
    records.merge(first)
    records.merge(second)
    assert records.jumps == {(0x1005, MAIN): (APPLES, Evidence.RELOCATION)}
    assert records.calls == {(0x1005, MAIN): (PEARS, Evidence.DWARF)}
    assert records.not_calls == {(0x2005, APPLES), (0x2005, PEARS)}
    assert records.dropped == Counter({"dwarf: out of place": 2})
