"""Merging evidence: the best that knows a record has it, and who contradicts himself is not believed."""

from __future__ import annotations

from collections import Counter

import numpy as np

from icf.model import Evidence
from linkpass.evidence.records import Records, Statements
from linkpass.evidence.slots import Slots

# two branches in main, one in the body of apples and pears
FIRST, SECOND, IN_APPLES, IN_PEARS = 0, 1, 2, 3
SLOTS = Slots.of(np.array([1, 1, 2]))
APPLES, PEARS = 0, 1  # the callees, which share a body


def statements(evidence: Evidence, *calls: tuple[int, int]) -> Statements:
    made = Statements(evidence)
    for slot, callee in calls:
        made.state([slot], [callee])
    return made


def found(records: Records) -> dict[int, tuple[int, Evidence]]:
    known = np.flatnonzero(records.is_known).tolist()
    return {slot: (int(records.callee[slot]), Evidence(records.evidence[slot])) for slot in known}


def test_the_first_witness_has_the_record() -> None:
    records = Records(SLOTS)
    records.merge(statements(Evidence.RELOCATION, (FIRST, APPLES)))
    records.merge(statements(Evidence.DWARF, (FIRST, PEARS), (SECOND, PEARS)))
    assert found(records) == {FIRST: (APPLES, Evidence.RELOCATION), SECOND: (PEARS, Evidence.DWARF)}
    assert not records.dropped


def test_callers_that_share_a_body_have_records_of_their_own() -> None:
    records = Records(SLOTS)
    records.merge(statements(Evidence.DWARF, (IN_APPLES, APPLES), (IN_PEARS, PEARS)))
    assert found(records) == {IN_APPLES: (APPLES, Evidence.DWARF), IN_PEARS: (PEARS, Evidence.DWARF)}


def test_a_contradiction_cancels_a_record_and_is_counted() -> None:
    records = Records(SLOTS)
    records.merge(statements(Evidence.DWARF, (FIRST, APPLES), (FIRST, PEARS), (FIRST, APPLES), (SECOND, PEARS)))
    assert found(records) == {SECOND: (PEARS, Evidence.DWARF)}
    assert records.dropped == Counter({"dwarf: contradict each other": 1})


def test_the_same_statement_twice_is_no_contradiction() -> None:
    records = Records(SLOTS)
    records.merge(statements(Evidence.DWARF, (FIRST, APPLES), (FIRST, APPLES)))
    assert found(records) == {FIRST: (APPLES, Evidence.DWARF)}


def test_no_weaker_witness_fills_the_gap_that_a_contradiction_leaves() -> None:
    records = Records(SLOTS)
    records.merge(statements(Evidence.RELOCATION, (FIRST, APPLES), (FIRST, PEARS)))
    records.merge(statements(Evidence.DWARF, (FIRST, APPLES)))
    assert found(records) == {}


def test_a_better_record_outlives_a_weaker_contradiction() -> None:
    records = Records(SLOTS)
    records.merge(statements(Evidence.RELOCATION, (FIRST, APPLES)))
    records.merge(statements(Evidence.DWARF, (FIRST, APPLES), (FIRST, PEARS)))
    assert found(records) == {FIRST: (APPLES, Evidence.RELOCATION)}


def test_loops_and_reasons_add_up() -> None:
    first, second = Statements(Evidence.RELOCATION), Statements(Evidence.DWARF)
    first.loops.append(IN_APPLES)
    second.loops.append(IN_PEARS)
    second.dropped["out of place"] = 2
    records = Records(SLOTS)
    records.merge(first)
    records.merge(second)
    assert np.flatnonzero(records.is_loop).tolist() == [IN_APPLES, IN_PEARS]
    assert records.dropped == Counter({"dwarf: out of place": 2})


def test_a_member_that_is_found_late_gets_slots_and_the_others_keep_theirs() -> None:
    records = Records(SLOTS)
    records.merge(statements(Evidence.OBJECT, (FIRST, APPLES), (IN_PEARS, PEARS)))
    records.is_loop[IN_APPLES] = True
    records.make_room(Slots.of(np.array([1, 2, 3])))
    assert found(records) == {0: (APPLES, Evidence.OBJECT), 4: (PEARS, Evidence.OBJECT)}
    assert np.flatnonzero(records.is_loop).tolist() == [3]
    records.merge(statements(Evidence.DWARF, (5, PEARS)))
    assert found(records)[5] == (PEARS, Evidence.DWARF)
