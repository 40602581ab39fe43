"""Which function a frame is, from who called it: one behaviour a test."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.e2e.program import Names
from tests.e2e.workshop import ALL, LLD, Toolchain, Workshop

every_toolchain = pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)


def toolchains_but(failing: Collection[Toolchain], reason: str) -> pytest.MarkDecorator:
    """Every toolchain, those that cannot do it yet marked."""
    mark = pytest.mark.xfail(reason=reason)
    chosen = [pytest.param(each, marks=mark) if each in failing else each for each in ALL]
    return pytest.mark.parametrize("toolchain", chosen, ids=str, indirect=True)


def functions(*names: str) -> set[Names]:
    return {frozenset({name}) for name in names}


@every_toolchain
def test_a_direct_call_names_the_folded_callee(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE void apples() { SAMPLE(); ++total; }
        NOINLINE void pears() { SAMPLE(); ++total; }
        int main() { apples(); pears(); apples(); return total != 3; }
    """)
    assert program.merged() == functions("_Z6applesv", "_Z5pearsv")
    verdicts = program.check()
    assert verdicts["_Z6applesv"] == verdicts["_Z5pearsv"] == {"unique"}
    assert verdicts["main"] == {"unmerged"}


@every_toolchain
def test_merged_callers_of_merged_callees_are_told_apart_by_the_outermost_call(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE void wash_apples() { SAMPLE(); ++total; }
        NOINLINE void wash_pears() { SAMPLE(); ++total; }
        NOINLINE void pack_apples() { wash_apples(); ++total; }
        NOINLINE void pack_pears() { wash_pears(); ++total; }
        NOINLINE void sell_apples() { pack_apples(); ++total; }
        NOINLINE void sell_pears() { pack_pears(); ++total; }
        int main() { sell_apples(); sell_pears(); return total != 6; }
    """)
    assert len(program.merged()) == 6
    verdicts = program.check()
    assert {name: verdict for name, verdict in verdicts.items() if "apples" in name or "pears" in name} == {
        f"_Z{len(name)}{name}v": {"unique"}
        for name in ("wash_apples", "wash_pears", "pack_apples", "pack_pears", "sell_apples", "sell_pears")
    }


def test_templates_over_pointers(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        template <class T> struct List {
            int count = 0;
            T *last = nullptr;
            NOINLINE int grow(T *item) { SAMPLE(); last = item; return ++count; }
            NOINLINE int add(T *item) { return grow(item) + 1; }
        };
        struct Order {} order;
        struct Payment {} payment;
        NOINLINE int place(List<Order> &orders) { return orders.add(&order); }
        NOINLINE int post(List<Payment> &payments) { return payments.add(&payment) + 1; }
        int main() {
            List<Order> orders;
            List<Payment> payments;
            return place(orders) + post(payments) - 5;
        }
    """)
    assert functions("_ZN4ListI5OrderE4growEPS0_", "_ZN4ListI7PaymentE4growEPS0_") <= program.merged()
    verdicts = program.check()
    assert [found for name, found in verdicts.items() if name.startswith("_ZN4List")] == 4 * [{"unique"}]


def test_static_functions_of_one_name_are_told_apart_by_file(workshop: Workshop) -> None:
    part = """
        extern int total;
        static NOINLINE void helper() { SAMPLE(); ++total; }
        void from_%s() { helper(); total += %d; }
    """
    program = workshop.build_with_tables(
        {
            "main.cpp": "int total; void from_a(); void from_b(); int main() { from_a(); from_b(); return 0; }",
            "a.cpp": part % ("a", 3),
            "b.cpp": part % ("b", 4),
        }
    )
    assert program.check()["_ZL6helperv"] == {"unique"}
    files = [frames[1]["file"] for frames in program.resolve()]
    assert [file.rpartition("/")[2] for file in files] == ["a.cpp", "b.cpp"]
    assert [frames[1]["line"] for frames in program.resolve()] == [3, 3]


@every_toolchain
def test_static_functions_of_different_names(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        static NOINLINE void apples() { SAMPLE(); ++total; }
        static NOINLINE void pears() { SAMPLE(); ++total; }
        int main() { apples(); pears(); apples(); return total != 3; }
    """)
    assert program.merged() == functions("_ZL6applesv", "_ZL5pearsv")
    verdicts = program.check()
    assert verdicts["_ZL6applesv"] == verdicts["_ZL5pearsv"] == {"unique"}


def test_name_and_line_belong_to_the_same_function(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE void apples() { SAMPLE(); ++total; }

        NOINLINE void pears() { SAMPLE(); ++total; }
        int main() {
            apples();
            pears();
        }
    """)
    found = [[(frame["name"], frame["line"]) for frame in frames[1:3]] for frames in program.resolve()]
    assert found == [[("apples()", 3), ("main", 7)], [("pears()", 5), ("main", 8)]]


def test_recursion_through_a_merged_function(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE void apples(int depth) { if (depth) apples(depth - 1); else SAMPLE(); ++total; }
        NOINLINE void pears(int depth) { if (depth) pears(depth - 1); else SAMPLE(); ++total; }
        int main() { apples(3); pears(3); return 0; }
    """)
    program.check()


def test_functions_that_call_each_other(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        void even_apples(int); void even_pears(int);
        NOINLINE void odd_apples(int n) { if (n) even_apples(n - 1); else SAMPLE(); total += 1; }
        NOINLINE void odd_pears(int n) { if (n) even_pears(n - 1); else SAMPLE(); total += 1; }
        NOINLINE void even_apples(int n) { if (n) odd_apples(n - 1); else SAMPLE(); total += 2; }
        NOINLINE void even_pears(int n) { if (n) odd_pears(n - 1); else SAMPLE(); total += 2; }
        int main() { odd_apples(4); odd_pears(4); return 0; }
    """)
    program.check()


def test_a_tail_call_leads_to_the_merged_callee(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE int apples() { SAMPLE(); return ++total; }
        NOINLINE int pears() { SAMPLE(); return ++total; }
        NOINLINE int jump_to_apples() { total += 2; return apples(); }
        NOINLINE int jump_to_pears() { total += 3; return pears(); }
        int main() { int sum = jump_to_apples(); sum += jump_to_pears(); return sum != 10; }
    """)
    assert program.merged() == functions("_Z6applesv", "_Z5pearsv")
    assert not any("jump" in name for truths in program.truth() for names in truths for name in names)
    verdicts = program.check()
    assert verdicts["_Z6applesv"] == verdicts["_Z5pearsv"] == {"unique"}


def test_a_tail_call_of_a_merged_function(workshop: Workshop) -> None:
    # the jumping functions are merged as well: only the record for main tells which of them jumped
    program = workshop.build_with_tables("""
        int total;
        NOINLINE int apples() { SAMPLE(); return ++total; }
        NOINLINE int pears() { SAMPLE(); return ++total; }
        NOINLINE int jump_to_apples() { total += 2; return apples(); }
        NOINLINE int jump_to_pears() { total += 2; return pears(); }
        int main() { int sum = jump_to_apples(); sum += jump_to_pears(); return sum != 9; }
    """)
    assert program.merged() == functions("_Z6applesv", "_Z5pearsv")
    verdicts = program.check()
    assert verdicts["_Z6applesv"] == verdicts["_Z5pearsv"] == {"unique"}


def test_a_chain_of_tail_calls_through_merged_functions(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE int apples(int n) { SAMPLE(); return n + total++; }
        NOINLINE int pears(int n) { SAMPLE(); return n + total++; }
        NOINLINE int wash_apples(int n) { return apples(n + 1); }
        NOINLINE int wash_pears(int n) { return pears(n + 1); }
        NOINLINE int pack_apples(int n) { return wash_apples(n + 2); }
        NOINLINE int pack_pears(int n) { return wash_pears(n + 2); }
        NOINLINE int sell_apples(int n) { return pack_apples(n) + 1; }
        NOINLINE int sell_pears(int n) { return pack_pears(n) + 1; }
        int main() { return sell_apples(0) + sell_pears(0) != 9; }
    """)
    assert len(program.merged()) == 4
    verdicts = program.check()
    assert verdicts["_Z6applesi"] == verdicts["_Z5pearsi"] == {"unique"}
    assert verdicts["_Z11sell_applesi"] == verdicts["_Z10sell_pearsi"] == {"unique"}


def test_a_function_that_jumps_to_either_of_two_members_leaves_both(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE int apples(int n) { SAMPLE(); return n + total++; }
        NOINLINE int pears(int n) { SAMPLE(); return n + total++; }
        NOINLINE int pick(int n) { if (n & 1) return apples(n); return pears(n); }
        NOINLINE int sell(int n) { return pick(n) + 1; }
        int main() { return sell(1) + sell(2) != 6; }
    """)
    assert len(program.merged()) == 2
    verdicts = program.check()
    assert verdicts["_Z6applesi"] == verdicts["_Z5pearsi"] == {"ambiguous"}


def test_an_indirect_call_is_never_guessed(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE void apples() { SAMPLE(); ++total; }
        NOINLINE void pears() { SAMPLE(); ++total; }
        void (*volatile sellers[])() = {apples, pears};
        int main() { for (auto sell : sellers) sell(); return 0; }
    """)
    verdicts = program.check()
    assert verdicts["_Z6applesv"] == verdicts["_Z5pearsv"] == {"ambiguous"}


def test_an_indirect_call_reaches_only_functions_whose_address_is_taken(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE void apples() { SAMPLE(); ++total; }
        NOINLINE void pears() { SAMPLE(); ++total; }
        NOINLINE void plums() { SAMPLE(); ++total; }
        void (*volatile seller)() = pears;
        int main() { seller(); apples(); plums(); return 0; }
    """)
    assert len(program.merged()) == 3
    verdicts = program.check()
    assert verdicts["_Z6applesv"] == verdicts["_Z5plumsv"] == {"unique"}
    assert verdicts["_Z5pearsv"] <= {"unique", "narrowed", "ambiguous"}


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_calls_by_a_register_that_holds_one_address_are_named_in_the_kept_caller(workshop: Workshop) -> None:
    """With -fno-plt clang loads an address from the GOT once for several calls; the linker makes that a `lea`."""
    program = workshop.build_with_tables(
        {
            "main.cpp": """
                extern int total;
                void apples(); void pears();
                NOINLINE void pick_apples(int n) { for (int i = 0; i < n; ++i) { apples(); ++total; apples(); } }
                NOINLINE void pick_pears(int n) { for (int i = 0; i < n; ++i) { pears(); ++total; pears(); } }
                int main() { apples(); ++total; pears(); ++total; pick_apples(2); pick_pears(2); return total == 77; }
            """,
            "fruit.cpp": """
                int total;
                NOINLINE void apples() { SAMPLE(); ++total; }
                NOINLINE void pears() { SAMPLE(); ++total; }
            """,
        },
        ["-fno-plt"],
    )
    verdicts = program.check()
    assert verdicts["_Z6applesv"] == {"unique"}
    assert verdicts["_Z5pearsv"] == {"unique", "ambiguous"}  # no relocation is left of `pick_pears`
    assert verdicts["_Z11pick_applesi"] == verdicts["_Z10pick_pearsi"] == {"unique"}


def test_a_virtual_call_is_never_guessed(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        struct Fruit { virtual ~Fruit() = default; virtual int price(); int cents = 7; };
        NOINLINE int Fruit::price() { return 0; }
        struct Apple : Fruit { int price() override; };
        struct Pear : Fruit { int price() override; };
        int Apple::price() { SAMPLE(); return cents; }
        int Pear::price() { SAMPLE(); return cents; }
        NOINLINE int sell(Fruit &fruit) { return fruit.price() + 1; }
        int main() { Apple apple; Pear pear; return sell(apple) + sell(pear) - 16; }
    """)
    assert program.merged() == functions("_ZN5Apple5priceEv", "_ZN4Pear5priceEv")
    verdicts = program.check()
    assert verdicts["_ZN5Apple5priceEv"] <= {"narrowed", "ambiguous", "unique"}


@every_toolchain
def test_a_call_that_never_returns_belongs_to_the_function_before_its_return_address(workshop: Workshop) -> None:
    # the return address is where the next function starts
    program = workshop.build_with_tables("""
        #include <setjmp.h>
        jmp_buf market;
        int total;
        [[noreturn]] NOINLINE void sell_apples() { SAMPLE(); ++total; longjmp(market, 1); }
        [[noreturn]] NOINLINE void sell_pears() { SAMPLE(); ++total; longjmp(market, 1); }
        NOINLINE void apples() { total += 2; sell_apples(); }
        NOINLINE void pears() { total += 2; sell_pears(); }
        int main() {
            if (!setjmp(market)) apples();
            if (!setjmp(market)) pears();
        }
    """)
    assert len(program.merged()) == 4
    verdicts = program.check()
    assert verdicts["_Z6applesv"] == verdicts["_Z5pearsv"] == {"unique"}


def test_calls_in_code_that_was_inlined_or_split_off(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        NOINLINE void wash_apples() { SAMPLE(); ++total; }
        NOINLINE void wash_pears() { SAMPLE(); ++total; }
        inline __attribute__((always_inline)) void pack_apples() { { int sum = total; wash_apples(); total += sum; } }
        inline __attribute__((always_inline)) void pack_pears() { { int sum = total; wash_pears(); total += sum; } }
        NOINLINE void apples(int n) { pack_apples(); if (__builtin_expect(n > 9, 0)) throw n; pack_apples(); }
        NOINLINE void pears(int n) { pack_pears(); if (__builtin_expect(n > 9, 0)) throw n; pack_pears(); }
        int main(int argc, char **) { apples(argc); pears(argc); return 0; }
    """)
    assert functions("_Z11wash_applesv", "_Z10wash_pearsv") <= program.merged()
    verdicts = program.check()
    assert verdicts["_Z11wash_applesv"] == verdicts["_Z10wash_pearsv"] == {"unique"}
