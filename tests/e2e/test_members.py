"""What is a member of a fold class: one for each linkage name or declaration, whoever put them at one address."""

from __future__ import annotations

import json

import pytest

from tests.e2e.dumps import classes
from tests.e2e.program import Program, icf
from tests.e2e.workshop import GOLD, LLD, MOLD, Workshop


def members(program: Program) -> set[frozenset[str]]:
    """The linkage names of each class."""
    return {frozenset(member["linkage_name"] for member in found["members"]) for found in classes(program)}


def test_the_two_constructors_of_a_class_are_one_function(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        struct Basket { int count; NOINLINE Basket(); NOINLINE ~Basket(); };
        Basket::Basket() : count(3) { SAMPLE(); }
        Basket::~Basket() { SAMPLE(); }
        int main() { Basket basket; return basket.count != 3; }
    """)
    assert program.merged() == set()
    assert not any("_ZN6BasketC1Ev" in names or "_ZN6BasketC2Ev" in names for names in members(program))
    verdicts = program.check()
    assert verdicts["_ZN6BasketC1Ev"] == {"unmerged"}
    assert verdicts["_ZN6BasketD1Ev"] == {"unmerged"}


@pytest.mark.parametrize("toolchain", [GOLD, LLD, MOLD], ids=str, indirect=True)
def test_functions_of_classes_whose_names_end_like_constructors_are_several(workshop: Workshop) -> None:
    code = "{ SAMPLE(); total += words; return total + words; }"
    program = workshop.build_with_tables(f"""
        extern int total;
        int total;
        struct MD2 {{ int words; NOINLINE int size() const; }};
        struct MD5 {{ int words; NOINLINE int size() const; }};
        int MD2::size() const {code}
        int MD5::size() const {code}
        NOINLINE int of_2(const MD2 &hash) {{ int n = hash.size(); total += 2; return n; }}
        NOINLINE int of_5(const MD5 &hash) {{ int n = hash.size(); total += 5; return n; }}
        int main() {{ of_2({{1}}); of_5({{1}}); return 0; }}
    """)
    assert program.merged() == {frozenset({"_ZNK3MD24sizeEv"}), frozenset({"_ZNK3MD54sizeEv"})}
    assert {frozenset({"_ZNK3MD24sizeEv", "_ZNK3MD54sizeEv"})} <= members(program)
    program.check()


@pytest.mark.parametrize(
    "toolchain",
    [
        pytest.param(GOLD, marks=pytest.mark.xfail(reason="gcc's call sites name the constructor's declaration")),
        LLD,
    ],
    ids=str,
    indirect=True,
)
def test_constructors_of_two_classes_are_two_members(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        struct Basket { int count; NOINLINE Basket(); };
        struct Box { int count; NOINLINE Box(); };
        Basket::Basket() : count(3) { SAMPLE(); count = 4; }
        Box::Box() : count(3) { SAMPLE(); count = 4; }
        int main() { Basket basket; Box box; return basket.count - box.count; }
    """)
    assert len(program.merged()) == 2
    (found,) = classes(program)
    assert len(found["members"]) == 2
    verdicts = program.check()
    assert verdicts["_ZN6BasketC1Ev"] == verdicts["_ZN3BoxC1Ev"] == {"unique"}


def test_an_alias_is_a_member_as_it_is_called_by_its_name(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        extern "C" NOINLINE void apples() { SAMPLE(); ++total; }
        extern "C" void red_apples() __attribute__((alias("apples")));
        extern "C" NOINLINE void pears() { SAMPLE(); ++total; }
        int main() { apples(); red_apples(); pears(); return 0; }
    """)
    assert frozenset(("apples", "pears", "red_apples")) in members(program)
    program.check()


def test_a_program_without_merged_functions_gets_no_call_records(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE void apples() { SAMPLE(); ++total; }
        int main() { apples(); return 0; }
    """)
    assert program.check()["_Z6applesv"] == {"unmerged"}
    document = json.loads(icf("dump", "--json", program.folded))
    assert not document.get("direct_calls")


@pytest.mark.parametrize("toolchain", [MOLD], ids=str, indirect=True)
def test_a_report_may_say_that_nothing_was_folded(workshop: Workshop) -> None:
    program = workshop.build("""
        int total;
        NOINLINE void apples() { SAMPLE(); ++total; }
        int main() { apples(); return 0; }
    """)
    program.report.write_text("")
    program.add_tables("--icf-report", program.report)
    assert program.check()["_Z6applesv"] == {"unmerged"}
