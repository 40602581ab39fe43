"""Members made of DIEs and symbols, on small lists: what is one function, and what is more."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from icf.dwarf.opening import open_debug
from icf.elf.image import Image
from icf.folds.groups import Group
from icf.folds.identity import Identities
from icf.folds.member import FoldMember
from icf.folds.members import match
from icf.folds.named import Named, ReportedFunction
from tests.support.elf import Elf, Part

UNIT_BYTES = 64  # DIEs 0..63 are of a.cc, 64..127 of b.cc
IN_A, IN_B = 20, 84


@pytest.fixture
def identities(tmp_path: Path) -> Identities:
    """Two units, of which only the names matter here."""
    abbrev = bytes.fromhex("01 11 00 03 08 00 00 00")  # 1: compile unit without children, DW_AT_name string
    info = b""
    for name in (b"src/a.cc", b"b.cc"):
        body = b"\x01" + name + b"\0"
        info += pack("<IHIB", UNIT_BYTES - 4, 4, 0, 8) + body.ljust(UNIT_BYTES - 11, b"\0")
    path = tmp_path / "a.out"
    path.write_bytes(Elf([Part(".debug_info", content=info), Part(".debug_abbrev", content=abbrev)]).build())
    return Identities(open_debug(Image.open(path)))


def group(linkage: str, name: str, *dies: int, external: bool = True, kept: bool = False) -> Group:
    return Group(linkage, name, external, list(dies), set(dies), set(dies) if kept else set())


def symbol(name: str, row: int, file: str = "") -> Named:
    return Named(name, row, bool(file), file)


def put_together(
    identities: Identities | None,
    groups: list[Group],
    named: list[Named],
    reported: list[str] | None = None,
    *,
    knows_kept: bool = False,
    drops_names: bool = False,
) -> list[FoldMember]:
    reported_functions = [ReportedFunction(name) for name in reported or []]
    members = match(identities, groups, named, reported_functions, knows_kept, drops_names=drops_names)
    return sorted(members, key=lambda member: (member.name, member.symbols))


def shape(members: list[FoldMember]) -> list[tuple[str, list[str], list[int], list[int]]]:
    return [(member.name, member.aliases, member.symbols, member.dies) for member in members]


def test_symbols_alone() -> None:
    assert shape(put_together(None, [], [symbol("apples", 1), symbol("pears", 2)])) == [
        ("apples", [], [1], []),
        ("pears", [], [2], []),
    ]


def test_variants_of_a_constructor_are_one_member() -> None:
    members = put_together(None, [], [symbol("_ZN3FooC2Ev", 1), symbol("_ZN3FooC1Ev", 2), symbol("_ZN3FooD0Ev", 3)])
    assert shape(members) == [("_ZN3FooC2Ev", ["_ZN3FooC1Ev"], [1, 2], []), ("_ZN3FooD0Ev", [], [3], [])]


def test_local_namesakes_of_two_files_are_two_members() -> None:
    members = put_together(None, [], [symbol("_ZL1fv", 1, "a.cc"), symbol("_ZL1fv", 2, "b.cc")])
    assert [(member.symbols, member.files) for member in members] == [
        ([1], frozenset({"a.cc"})),
        ([2], frozenset({"b.cc"})),
    ]
    assert all(member.local for member in members)


def test_dies_and_symbols_meet_by_linkage_name(identities: Identities) -> None:
    groups = [group("_Z6applesv", "apples", IN_A, IN_B), group("_Z5pearsv", "pears", IN_A + 1)]
    members = put_together(identities, groups, [symbol("_Z6applesv", 1), symbol("_Z5pearsv", 2)])
    assert shape(members) == [("_Z5pearsv", [], [2], [IN_A + 1]), ("_Z6applesv", [], [1], [IN_A, IN_B])]
    assert members[1].roots == {IN_A, IN_B} and members[1].die == IN_A


def test_a_symbol_without_die_is_a_member_of_its_own(identities: Identities) -> None:
    members = put_together(identities, [group("_Z1fv", "f", IN_A)], [symbol("_Z1fv", 1), symbol("_ZThn16_N1A1fEv", 2)])
    assert shape(members) == [("_Z1fv", [], [1], [IN_A]), ("_ZThn16_N1A1fEv", [], [2], [])]


def test_a_die_without_symbol_is_a_member_of_its_own(identities: Identities) -> None:
    members = put_together(identities, [group("_Z1fv", "f", IN_A), group("_Z1gv", "g", IN_B)], [symbol("_Z1fv", 1)])
    assert shape(members) == [("_Z1fv", [], [1], [IN_A]), ("_Z1gv", [], [], [IN_B])]


def test_a_die_without_linkage_name_finds_the_symbol_of_its_file(identities: Identities) -> None:
    groups = [group("", "helper", IN_A, external=False), group("", "helper", IN_B, external=False)]
    named = [symbol("_ZL6helperv", 1, "b.cc"), symbol("_ZL6helperv", 2, "a.cc")]
    assert [(m.symbols, m.dies) for m in put_together(identities, groups, named)] == [([1], [IN_B]), ([2], [IN_A])]


def test_a_die_whose_symbol_is_missing_makes_a_member_without_linkage_name(identities: Identities) -> None:
    groups = [group("", "apples", IN_A, external=False), group("", "pears", IN_A + 1, external=False)]
    members = put_together(identities, groups, [symbol("_ZL6applesv", 1, "a.cc")], drops_names=True)
    assert shape(members) == [("_ZL6applesv", [], [1], [IN_A]), ("pears", [], [], [IN_A + 1])]
    assert members[1].nameless and not members[0].nameless


def test_names_of_the_report_are_members(identities: Identities) -> None:
    members = put_together(None, [], [symbol("_Z1fv", 1)], ["_Z1fv", "_Z1gv"])
    assert shape(members) == [("_Z1fv", [], [1], []), ("_Z1gv", [], [], [])]
    members = put_together(identities, [group("_ZN1AC2Ev", "A", IN_A)], [symbol("_ZN1AC1Ev", 1)], ["_ZN1AC2Ev"])
    assert len(members) == 1


def test_a_dot_of_a_files_name_does_not_join_its_initializers() -> None:
    names = ["_GLOBAL__sub_I_a.pb.cc", "_GLOBAL__sub_I_a.grpc.pb.cc"]
    assert [member.name for member in put_together(None, [], [symbol(names[0], 1, "a.pb.cc")], names)] == sorted(names)


def test_the_kept_member_is_the_one_whose_address_is_in_the_image(identities: Identities) -> None:
    groups = [group("_Z1fv", "f", IN_A), group("_Z1gv", "g", IN_B, kept=True)]
    named = [symbol("_Z1fv", 1), symbol("_Z1gv", 2)]
    assert [member.kept for member in put_together(identities, groups, named, knows_kept=True)] == [False, True]
    assert [member.kept for member in put_together(identities, groups, named)] == [None, None]


def test_two_members_that_look_kept_are_not_told_apart(identities: Identities) -> None:
    groups = [group("_Z1fv", "f", IN_A, kept=True), group("_Z1gv", "g", IN_B, kept=True)]
    named = [symbol("_Z1fv", 1), symbol("_Z1gv", 2)]
    assert {member.kept for member in put_together(identities, groups, named, knows_kept=True)} <= {None, False}
    assert not any(member.kept for member in put_together(identities, groups, named, knows_kept=True))


def test_the_member_of_which_nothing_is_said_was_kept_if_all_others_were_folded(identities: Identities) -> None:
    members = put_together(
        identities, [group("_Z1fv", "f", IN_A)], [symbol("_Z1fv", 1), symbol("bare", 2)], knows_kept=True
    )
    assert [(member.name, member.kept) for member in members] == [("_Z1fv", False), ("bare", True)]


def numbered(*numbers: str) -> list[Named]:
    return [symbol(f"_ZL1fv{number}", row, "ld-temp.o") for row, number in enumerate(numbers)]


def test_namesakes_of_lto_have_their_dies_in_the_order_of_their_numbers(identities: Identities) -> None:
    groups = [group("_ZL1fv", "f", die, external=False) for die in (IN_B, IN_A)]
    assert shape(put_together(identities, groups, numbered(".12", ""))) == [
        ("_ZL1fv", [], [1], [IN_A]),
        ("_ZL1fv.12", [], [0], [IN_B]),
    ]


def test_a_die_that_several_namesakes_of_lto_may_have_is_of_none(identities: Identities) -> None:
    groups = [group("_ZL1fv", "f", IN_A, external=False)]
    found = put_together(identities, groups, numbered("", ".7"), knows_kept=True)
    assert shape(found) == [("_ZL1fv", [], [0], []), ("_ZL1fv.7", [], [1], [])]
    assert [sorted(member.roots) for member in found] == [[IN_A], [IN_A]]


def test_hashes_of_units_are_no_order(identities: Identities) -> None:
    groups = [group("f", "f", die, external=False) for die in (IN_A, IN_B)]
    named = [symbol("f.llvm.12", 1, "a.cc"), symbol("f.llvm.7", 2, "b.cc")]
    assert shape(put_together(identities, groups, named)) == [
        ("f.llvm.12", [], [1], [IN_A]),
        ("f.llvm.7", [], [2], [IN_B]),
    ]


@pytest.mark.parametrize("drops_names", [False, True])
def test_more_namesakes_of_lto_than_dies_are_all_members(identities: Identities, drops_names: bool) -> None:
    groups = [group("_ZL1fv", "f", die, external=False) for die in (IN_A, IN_B)]
    found = put_together(identities, groups, numbered("", ".7", ".12"), drops_names=drops_names)
    assert {row for member in found for row in member.symbols} == {0, 1, 2}
    assert sum(bool(member.symbols) for member in found) == 3


@pytest.mark.parametrize("kind", ["lto_priv", "llvm", "__uniq"])
def test_copies_of_two_units_are_two_functions_of_a_report(identities: Identities, kind: str) -> None:
    names = [f"_ZL1fv.{kind}.0", f"_ZL1fv.{kind}.1"]
    found = put_together(identities, [], [symbol(names[0], 1, "ltrans0.o")], names)
    assert [member.name for member in found] == names


def test_nothing_makes_no_member() -> None:
    assert put_together(None, [], []) == []


def test_a_name_is_its_own_whatever_it_is_called() -> None:
    member = FoldMember("_Z1fv", aliases=["g"], linkage="_Z1fv")
    assert member.is_named("_Z1fv") and member.is_named("g")
    assert not member.is_named("") and not member.is_named("f")
    assert not FoldMember("f", nameless=True).is_named("f")
