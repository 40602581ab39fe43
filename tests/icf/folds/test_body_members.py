"""Members of bodies: columns are the same whether a member is a row or an object."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from icf.folds.body_members import KEPT, REMOVED, UNKNOWN, Members, PlainRows
from icf.folds.member import NOWHERE, FoldMember
from icf.folds.member_columns import MemberColumns
from tests.support.symbol_names import NamesOfSymbols

ROWS = PlainRows(
    symbol=np.array([7, 5, 9]),
    symbols=NamesOfSymbols({5: "apples", 7: "pears", 9: "plums"}),
    is_local=np.array([False, True, False]),
    alone=np.zeros(3, np.bool_),
    kept=np.array([KEPT, REMOVED, UNKNOWN], np.int8),
    str_offset=np.array([3, NOWHERE, 8]),
    start=np.array([0, 2, 3, 4]),
    die=np.array([0x20, 0x30, 0x40, 0x50], np.uint64),
    root=np.array([0x10, 0x30, 0x11, 0x50], np.uint64),
    files_of=lambda symbol, dies: frozenset({f"{symbol}-{dies[0]:x}.c"}),
)


def bodies() -> list[Members]:
    nameless = FoldMember("figs()", dies=[0x70, 0x60], roots={0x60, 0x70}, nameless=True, kept=True)
    alias = FoldMember("bananas", aliases=["musa"], symbols=[3, 4], local=True)
    return [Members([0, 1, alias], ROWS), Members([nameless, 2], ROWS)]


def shown(columns: MemberColumns) -> dict[str, Any]:
    pairs = {name: sorted(set(zip(*map(np.ndarray.tolist, getattr(columns, name)), strict=True))) for name in PAIRS}
    plain = {
        name: getattr(columns, name).tolist()
        for name in ("start", "die", "kept", "str_offset", "is_local", "is_nameless")
    }
    files = columns.files_at(np.arange(len(columns)))
    return {"names": columns.names, "aliases": columns.aliases, "files": files} | pairs | plain


PAIRS = ("symbols", "dies", "roots")


def test_a_row_becomes_the_object_that_it_describes() -> None:
    assert list(Members([0, 1], ROWS)) == [
        FoldMember("pears", [], [7], [0x20, 0x30], {0x10, 0x20, 0x30}, "pears", False, True, str_offset=3),
        FoldMember("apples", [], [5], [0x40], {0x11, 0x40}, "apples", True, False, frozenset({"5-40.c"})),
    ]


def test_columns_are_the_same_of_rows_and_of_objects() -> None:
    made, touched = bodies(), bodies()
    of_rows = shown(MemberColumns(made))
    for members in touched:
        list(members)
    assert of_rows == shown(MemberColumns(touched))
    assert of_rows["names"] == ["pears", "apples", "bananas", "figs()", "plums"]
    assert of_rows["die"] == [0x20, 0x40, 0, 0x60, 0x50]
    assert of_rows["str_offset"] == [3, NOWHERE, NOWHERE, NOWHERE, 8]
    assert of_rows["roots"][:3] == [(0, 0x10), (0, 0x20), (0, 0x30)]
    assert of_rows["files"] == {1: frozenset({"5-40.c"})}
    assert [members.names for members in made] == [members.names for members in touched]


def test_a_member_that_was_changed_is_changed_in_the_columns() -> None:
    (members, _) = bodies()
    members[0].aliases = ["pyrus"]
    members[1].kept = True
    columns = MemberColumns([members])
    assert columns.aliases == [(0, "pyrus"), (2, "musa")]
    assert columns.kept.tolist() == [KEPT, KEPT, UNKNOWN]
    members[2].linkage, members[2].files = "musa", frozenset({"bananas.c"})
    assert columns.linkage_of_others == [(0, "pears"), (1, "apples"), (2, "musa")]
    assert columns.files_at(np.array([0, 2])) == {2: frozenset({"bananas.c"})}


def test_members_are_sorted_by_name_and_those_of_one_name_by_file() -> None:
    for others in ([], [FoldMember("apples", files=frozenset({"5-3.c"}), local=True)]):
        members = Members([0, 1, 2, *others], ROWS)
        members.sort()
        assert [(member.name, min(member.files, default="")) for member in members] == [
            *(("apples", "5-3.c") for _ in others),
            ("apples", "5-40.c"),
            ("pears", ""),
            ("plums", ""),
        ]


def test_no_members_have_empty_columns() -> None:
    assert not any(len(value) for name, value in shown(MemberColumns([])).items() if name != "start")


def test_rows_without_a_die_have_columns_of_their_own_and_get_dies_later() -> None:
    table = replace(
        ROWS,
        start=np.array([0, 0, 1, 1]),
        die=np.array([0x40], np.uint64),
        root=np.array([0x11], np.uint64),
        kept=np.full(3, UNKNOWN, np.int8),
    )
    members = Members([0, 1, 2], table)
    columns = MemberColumns([members])
    assert columns.die.tolist() == [0, 0x40, 0]
    assert members.rows_without_die() == [0, 2]
    assert table.member(2) == FoldMember("plums", [], [9], str_offset=8)
    table.add_dies(np.array([0, 2]), np.array([1, 2]), np.array([5, 6, 7], np.uint64), np.array([4, 6, 6], np.uint64))
    assert columns.die.tolist() == [5, 0x40, 6]
    assert [members.dies_of(idx) for idx in range(3)] == [[5], [0x40], [6, 7]]
    assert members.roots_of(0) == {4, 5}
    members.mark_kept(2)
    assert columns.kept.tolist() == [REMOVED, REMOVED, KEPT]


def test_look_ups_leave_rows_as_they_are() -> None:
    (members, others) = bodies()
    assert members.by_name() == {"pears": [0], "apples": [1], "bananas": [2], "musa": [2]}
    assert others.nameless == [0]
    assert [members.files_of(idx) for idx in range(2)] == [frozenset(), frozenset({"5-40.c"})]
    assert members.names_of(1) == ("apples",)
    assert members.entries[:2] == [0, 1]
