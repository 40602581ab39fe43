"""Which described function is a member's own: each rule on names, DIEs and addresses given as data."""

from __future__ import annotations

import numpy as np
import pytest

from icf.dwarf.inlines import scan_inlines
from icf.dwarf.opening import open_debug
from icf.model import DieOffset, FoldClass, Member, MemberFlag, Vaddr
from tests.support.dwarf_units import CU, HIGH_PC, LINKAGE_NAME, LOW_PC, SUBPROGRAM, image_of, table, u32, u64, unit
from unwind.symcache.builder.claims import _claim_folds, _claim_lost, _Described, _Functions

LOCAL, SYNTHETIC = MemberFlag.LOCAL, MemberFlag.SYNTHETIC
ABBREV = table((1, CU, True, ()), (2, SUBPROGRAM, False, [(LINKAGE_NAME, 0x08), (LOW_PC, 0x01), (HIGH_PC, 0x06)]))


def described(*functions: tuple[str, int]) -> _Described:
    """Functions at one body, by linkage name and DIE; the owner is the position."""
    found = _Described()
    for owner, (name, die) in enumerate(functions):
        found.add(owner, name, die)
    return found


def member(name: str, die: int = 0, flags: MemberFlag = MemberFlag.NONE, aliases: tuple[str, ...] = ()) -> Member:
    return Member(name, DieOffset(die), flags, aliases)


def test_the_die_of_the_tables_decides() -> None:
    here = described(("f", 0x10), ("f", 0x20))
    assert here.choose(member("f", 0x20), is_alone=False) == 1


def test_a_die_that_is_described_elsewhere_leaves_the_name_but_for_a_local_function() -> None:
    here = described(("f", 0x10))
    assert here.choose(member("f", 0x99), is_alone=False) == 0
    assert here.choose(member("f", 0x99, LOCAL), is_alone=False) == -1  # another file may have one of that name


def test_a_die_that_was_made_for_the_tables_does_not_count() -> None:
    assert described(("g", 0x10), ("f", 0x20)).choose(member("f", 0x10, SYNTHETIC), is_alone=False) == 1


def test_of_copies_of_one_name_it_is_the_first() -> None:
    here = described(("f", 0x10), ("f", 0x20))
    assert here.choose(member("f"), is_alone=False) == 0
    assert here.choose(member("f", flags=LOCAL), is_alone=False) == -1  # local ones are different functions


def test_a_description_that_two_local_functions_may_have_is_of_none() -> None:
    here = described(("f", 0x10))
    assert here.choose(member("f", flags=LOCAL), is_alone=False) == 0
    assert here.choose(member("f", flags=LOCAL), is_alone=False, is_one_of_name=False) == -1
    assert here.choose(member("f", 0x10, LOCAL), is_alone=False, is_one_of_name=False) == 0


def test_an_alias_is_a_name_of_the_member() -> None:
    assert described(("g", 0x10), ("f", 0x20)).choose(member("h", aliases=("f",)), is_alone=False) == 1


def test_a_name_of_one_kin_is_enough_where_it_is_the_only_one() -> None:
    constructor = "_ZN1AC1Ev"
    assert described(("_ZN1AC2Ev", 0x10)).choose(member(constructor), is_alone=False) == 0
    assert described(("f", 0x10)).choose(member("f.cold"), is_alone=False) == 0
    assert described(("_ZN1AC2Ev", 0x10), ("_ZN1AC3Ev", 0x20)).choose(member(constructor), is_alone=False) == -1


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_name_that_only_looks_akin_is_of_another_function(is_alone: bool) -> None:
    assert described(("_ZN3MD23getEv", 0x10)).choose(member("_ZN3MD53getEv"), is_alone=is_alone) == -1


def test_the_same_name_is_nearer_than_one_of_its_kin() -> None:
    assert described(("_ZN1AC2Ev", 0x10), ("_ZN1AC1Ev", 0x20)).choose(member("_ZN1AC1Ev"), is_alone=False) == 1


@pytest.mark.parametrize(("is_alone", "owner"), [(True, 0), (False, -1)])
def test_a_function_without_linkage_name_is_that_of_a_body_with_one_member(is_alone: bool, owner: int) -> None:
    assert described(("", 0x10)).choose(member("f"), is_alone=is_alone) == owner


def test_a_function_of_another_name_is_never_it() -> None:
    assert described(("g", 0x10)).choose(member("f"), is_alone=True) == -1


def test_the_only_function_that_is_described() -> None:
    assert described(("f", 0x10), ("f", 0x20)).only() == 0
    assert described(("", 0x10)).only() == 0
    assert described(("f", 0x10), ("", 0x20)).only() == described().only() == -1


def functions(*listed: tuple[str, int, int]) -> _Functions:
    """Debug information of functions, by linkage name, address and size."""
    dies = b"".join(b"\x02" + name.encode() + b"\0" + u64(low) + u32(size) for name, low, size in listed)
    sections = {".debug_info": unit(b"\x01" + dies + b"\0"), ".debug_abbrev": ABBREV}
    debug = open_debug(image_of(sections), inlines=True)
    return _Functions(debug, scan_inlines(debug))


def at(found: _Functions, vaddr: int) -> list[int]:
    return [int(owner) for owner in found.claims_at(np.array([vaddr], np.uint64))[1]]


def test_all_functions_at_an_address_are_claimed_there() -> None:
    found = functions(("f", 0x1000, 0x20), ("g", 0x1000, 0x20), ("h", 0x2000, 0x20))
    assert (at(found, 0x1000), at(found, 0x2000)) == ([0, 1], [2])


def test_an_address_within_a_function_is_claimed_by_the_one_around_it() -> None:
    found = functions(("f", 0x1000, 0x20))
    assert (at(found, 0x1010), at(found, 0x1020), at(found, 0x0FFF)) == ([0], [], [])


def fold(*members: Member) -> list[tuple[int, FoldClass]]:
    return [(0, FoldClass(Vaddr(0x1000), 0x20, members))]


@pytest.mark.parametrize(("are_aliases", "claimed"), [(True, [0, 0]), (False, [-1, -1])])
def test_where_the_linker_does_not_fold_all_names_are_those_of_the_one_function(
    are_aliases: bool, claimed: list[int]
) -> None:
    function = np.zeros(2, np.int64)
    described = functions(("f", 0x1000, 0x20))
    _claim_folds(described, fold(member("g"), member("h")), function, None, are_aliases=are_aliases)
    assert function.tolist() == claimed


def test_a_function_that_lost_its_address_is_found_by_its_name_unless_it_is_local() -> None:
    found = functions(("f", 0x1000, 0x20), ("g", 0, 0x20), ("g", 1, 0x20), ("h", 0x3000, 0x20))
    folds = fold(member("g"), member("g", flags=LOCAL), member("h"), member("f"))
    lost = np.full(4, -1, np.int64)
    _claim_lost(found, folds, np.array([-1, -1, -1, 0]), lost)
    assert lost.tolist() == [1, -1, -1, -1]
