"""Which functions have to stay unfolded, on tables as plain data."""

from __future__ import annotations

import pytest

from icf.linkers import GOLD, LLD, Linker
from icf.model import ALL_MEMBERS, ClassFlag, DieOffset, FoldClass, Member, MemberFlag, MemberRef, TailCall, Vaddr
from icf.tables.dcall import DirectCalls
from linkpass.keep_unique import KeepUnique, find_keep_unique

KNOWN = ClassFlag.MEMBERS_COMPLETE | ClassFlag.CALLS_COMPLETE | ClassFlag.ADDRESS_TAKEN_KNOWN
NONE, TAKEN, VIRTUAL, LOCAL, KEPT = (MemberFlag[name] for name in ("NONE", "ADDRESS_TAKEN", "VIRTUAL", "LOCAL", "KEPT"))


def fold(class_idx: int, *marks: MemberFlag, flags: ClassFlag = KNOWN) -> FoldClass:
    """Members are called like c0m1; their DIEs are 0x100 * (class + 1) + member."""
    members = [Member(f"c{class_idx}m{idx}", DieOffset(die(class_idx, idx)), mark) for idx, mark in enumerate(marks)]
    return FoldClass(Vaddr(0x1000 * (class_idx + 1)), 100, tuple(members), flags)


def die(class_idx: int, idx: int) -> int:
    return 0x100 * (class_idx + 1) + idx


def find(
    *classes: FoldClass,
    calls: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (),
    tails: tuple[TailCall, ...] = (),
    linker: Linker = LLD,
) -> KeepUnique:
    """`calls` are pairs of caller and callee; each class has one call site."""
    rows = [(0x1000 * (caller[0] + 1) + 8, die(*callee), die(*caller)) for caller, callee in calls]
    return find_keep_unique(classes, tails, DirectCalls.of(rows), linker)


def names(found: KeepUnique) -> list[str]:
    return sorted(kept.linkage_name for kept in found.functions)


def test_all_but_one_of_those_that_a_pointer_leads_to() -> None:
    found = find(fold(0, TAKEN, NONE, VIRTUAL, NONE, TAKEN | VIRTUAL), fold(1, TAKEN, NONE), fold(2, NONE, NONE))
    assert names(found) == ["c0m2", "c0m4"]
    assert (found.size_bytes, found.caller_bytes, found.impossible, found.unlisted) == (200, 0, [], 0)
    assert found.response_file() == "--keep-unique=c0m2\n--keep-unique=c0m4\n"


def test_what_is_reached_by_tail_calls_counts() -> None:
    jump = TailCall(Vaddr(0x2008), MemberRef(1, 0), MemberRef(0, 1))
    classes = fold(0, TAKEN, NONE, NONE), fold(1, TAKEN)
    assert names(find(*classes)) == []
    assert names(find(*classes, tails=(jump,))) == ["c0m1"]
    anywhere = TailCall(Vaddr(0x2008), MemberRef(1, ALL_MEMBERS), MemberRef(0, ALL_MEMBERS))
    assert names(find(*classes, tails=(anywhere,))) == ["c0m1", "c0m2"]


def test_what_is_not_known_counts() -> None:
    assert names(find(fold(0, NONE, NONE, flags=KNOWN & ~ClassFlag.CALLS_COMPLETE))) == ["c0m1"]
    assert names(find(fold(0, NONE, NONE, flags=KNOWN & ~ClassFlag.ADDRESS_TAKEN_KNOWN))) == ["c0m1"]
    assert find(fold(0, NONE, NONE, flags=KNOWN & ~ClassFlag.MEMBERS_COMPLETE)).unlisted == 1


def test_callers_differ_by_the_callees_that_are_kept() -> None:
    callers, callees = fold(0, TAKEN, TAKEN, TAKEN), fold(1, TAKEN, TAKEN)
    calls = (((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 2), (1, 1)))
    found = find(callers, callees, calls=calls)
    assert names(found) == ["c0m2", "c1m1"]  # c0m0 calls another function than the other two
    assert (found.caller_bytes, found.size_bytes) == (100, 300)
    assert names(find(callers, callees, calls=calls[:2])) == ["c0m1", "c0m2", "c1m1"]  # not known of all
    assert names(find(callers, callees, calls=calls, linker=GOLD)) == ["c0m0", "c0m1", "c0m2", "c1m0", "c1m1"]


def test_circles_end() -> None:
    calls = (((0, 0), (1, 0)), ((0, 1), (1, 1)), ((1, 0), (0, 0)), ((1, 1), (0, 1)))
    assert names(find(fold(0, TAKEN, TAKEN), fold(1, NONE, NONE), calls=calls)) == ["c0m1"]


def test_local_functions_cannot_be_named() -> None:
    found = find(fold(0, TAKEN, TAKEN | LOCAL, TAKEN))
    assert (names(found), found.impossible) == (["c0m0", "c0m2"], [])
    found = find(fold(0, TAKEN | LOCAL, TAKEN | LOCAL, TAKEN))
    assert (names(found), found.impossible) == (["c0m2"], ["c0m0", "c0m1"])


@pytest.mark.parametrize("linker", [GOLD, LLD], ids=lambda linker: linker.name)
def test_hidden_functions_can_be_named(linker: Linker) -> None:
    """The linker makes them local, yet --keep-unique finds them; names of local functions say that they are."""
    local = ["_ZL3addi", "_ZN2ns12_GLOBAL__N_13addEi", "_Z3addIN12_GLOBAL__N_14CellEEvi"]
    members = [Member(name, DieOffset(die(0, idx)), TAKEN | LOCAL) for idx, name in enumerate([*local, "_Z3addi"])]
    found = find(FoldClass(Vaddr(0x1000), 100, tuple(members), KNOWN), linker=linker)
    assert (names(found), found.impossible) == (["_Z3addi"], local)


def test_gold_folds_first() -> None:
    """What the others were folded into stays with those that are not named, and callers stay folded."""
    found = find(fold(0, TAKEN, TAKEN | KEPT, TAKEN), linker=GOLD)
    assert (names(found), found.impossible) == (["c0m0", "c0m2"], [])
    found = find(fold(0, TAKEN, KEPT, TAKEN), linker=GOLD)
    assert names(found) == ["c0m2"]
    found = find(fold(0, TAKEN, TAKEN | KEPT, TAKEN | LOCAL), linker=GOLD)
    assert (names(found), found.impossible) == (["c0m0"], ["c0m2"])
    found = find(fold(0, TAKEN, TAKEN | LOCAL), linker=GOLD)  # which one is not known
    assert (names(found), found.impossible) == (["c0m0"], ["c0m1"])
