"""Thunks that gcc put into the section of their function: a report names the section alone."""

from __future__ import annotations

import json

import pytest

from tests.e2e.program import icf
from tests.e2e.workshop import GCC_MOLD, Workshop

# their thunks have sections of their own
CLASSES_OF_ONE_UNIT = """
    struct One : Left, Right { int right(int n) override; } one;
    struct Two : Left, Right { int right(int n) override; } two;
    NOINLINE int One::right(int n) { SAMPLE(); total -= n; return Left::cents + n; }
    NOINLINE int Two::right(int n) { SAMPLE(); total -= n; return Left::cents + n; }
"""


@pytest.mark.parametrize("toolchain", [GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("others", ["", CLASSES_OF_ONE_UNIT], ids=["alone", "beside others"])
def test_thunks_in_the_section_of_their_function_are_folded_with_it(workshop: Workshop, others: str) -> None:
    program = workshop.build(
        """
        extern int total;
        int total;
        struct Left { virtual int left() { return 1; } int cents = 0; };
        struct Right { virtual int right(int n) = 0; int cents = 0; };
        template <class T> struct Both : Left, Right {
            NOINLINE int right(int n) override { SAMPLE(); total += n; return cents + Right::cents; }
            using Left::cents;
        };
        OTHERS
        Right *volatile rights[] = {new Both<int>, new Both<unsigned>, MORE};
        int main() { for (Right *right : rights) total += right->right(3); return 0; }
        """.replace("OTHERS", others).replace("MORE", "&one, &two" if others else ""),
        link_flags=["-Wl,--gc-sections"],
    )
    program.add_tables("--icf-report", program.report)
    program.check()
    classes = json.loads(icf("dump", "--folds", "--json", program.folded))["classes"]
    named = [{member["linkage_name"] for member in each["members"]} for each in classes]
    assert {"_ZThn16_N4BothIiE5rightEi", "_ZThn16_N4BothIjE5rightEi"} in named


IGNORES_ITS_OBJECT = """
    extern int total;
    int total;
    struct Left { virtual int left() { return 1; } int cents = 0; };
    struct Wide { virtual int wide() { return 2; } long cents[8] = {}; };
    struct Right { virtual void right(int n) = 0; virtual ~Right() {} };
    template <class T> struct Both : Left, Right { void right(int) override { SAMPLE(); ++total; } ~Both() {} };
    template <class T> struct Big : Wide, Right { void right(int) override { SAMPLE(); ++total; } ~Big() {} };
    template <class T> struct Last : Wide, Right { void right(int) override {} ~Last() { SAMPLE(); ++total; } };
    Right *volatile rights[] = {new Both<int>, new Big<int>, new Last<int>};
    int main() {
        for (Right *right : rights) { right->right(3); ++total; }
        for (Right *right : rights) { right->~Right(); ++total; }
        return 0;
    }
"""


@pytest.mark.parametrize("toolchain", [GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("link_flags", [[], ["-Wl,--gc-sections"]], ids=["all symbols", "those that are left"])
def test_thunks_of_different_bases_are_one_body_if_the_functions_ignore_their_objects(
    workshop: Workshop, link_flags: list[str]
) -> None:
    program = workshop.build(IGNORES_ITS_OBJECT, link_flags=link_flags)
    program.add_tables("--icf-report", program.report)
    found = program.check_names()
    assert found["_ZThn16_N4BothIiE5rightEi"] == found["_ZThn72_N3BigIiE5rightEi"] == {"ambiguous"}
    folds = json.loads(icf("dump", "--folds", "--json", program.folded))["classes"]
    thunks = [each for each in folds if each["members"][0]["linkage_name"].startswith("_ZTh")]
    known = {(len(each["members"]), "members-complete" in each["flags"]) for each in thunks}
    assert known == ({(1, False)} if link_flags else {(2, True), (3, True)})
