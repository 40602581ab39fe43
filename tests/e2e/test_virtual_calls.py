"""Calls through vtables and pointers in real programs, each resolved with and without the objects' vtable pointers.

Without them the function is one of those that its slot holds; with them it is named, wherever that is certain.
"""

from __future__ import annotations

import pytest

from tests.e2e.program import Program
from tests.e2e.workshop import AARCH64, GOLD, LLD, LLD_ALONE, MOLD, Workshop

# where the tables name what is in every slot
NAMED = (GOLD, LLD, LLD_ALONE)
every_toolchain = pytest.mark.parametrize("toolchain", [GOLD, LLD, LLD_ALONE, MOLD, AARCH64], ids=str, indirect=True)
UNIQUE, OPEN = {"unique"}, {"narrowed", "ambiguous"}
FRUIT = """
    struct Fruit { virtual ~Fruit() = default; virtual int price() = 0; virtual int weight() { return 1; }
                   int cents = 7; };
    struct Apple : Fruit { int price() override; };
    struct Pear : Fruit { int price() override; };
    struct Stone : Fruit { int price() override { return 0; } int weight() override; };
    int Apple::price() { SAMPLE_OBJECT(); return cents; }
    int Pear::price() { SAMPLE_OBJECT(); return cents; }
    int Stone::weight() { SAMPLE_OBJECT(); return cents; }
"""


def check_both(program: Program) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The verdicts of each function without and with vtable pointers; no claim may be wrong."""
    return program.check(), program.check(with_vptrs=True)


@pytest.mark.parametrize("toolchain", NAMED, ids=str, indirect=True)
def test_a_virtual_call(workshop: Workshop) -> None:
    program = workshop.build_with_tables(
        f"""{FRUIT}
        NOINLINE int sell(Fruit &fruit) {{ return fruit.price() + 1; }}
        NOINLINE int weigh(Fruit &fruit) {{ return fruit.weight() + 1; }}
        int main() {{ Apple apple; Pear pear; Stone stone; return sell(apple) + sell(pear) + weigh(stone) - 24; }}
        """
    )
    assert len(program.merged()) == 3
    without, with_vptrs = check_both(program)
    assert without["_ZN5Stone6weightEv"] == UNIQUE  # nothing else of the body is in that slot
    assert without["_ZN5Apple5priceEv"] == without["_ZN4Pear5priceEv"] == {"narrowed"}
    for name in ("_ZN5Apple5priceEv", "_ZN4Pear5priceEv", "_ZN5Stone6weightEv"):
        assert with_vptrs[name] == UNIQUE


@pytest.mark.parametrize("toolchain", NAMED, ids=str, indirect=True)
def test_a_virtual_call_that_is_a_jump(workshop: Workshop) -> None:
    program = workshop.build_with_tables(
        f"""{FRUIT}
        NOINLINE int sell(Fruit &fruit) {{ return fruit.price(); }}
        int main() {{ Apple apple; Pear pear; Stone stone; return sell(apple) + sell(pear) + stone.weight() - 21; }}
        """
    )
    without, with_vptrs = check_both(program)
    assert without["_ZN5Apple5priceEv"] == {"narrowed"}
    assert with_vptrs["_ZN5Apple5priceEv"] == with_vptrs["_ZN4Pear5priceEv"] == UNIQUE


@every_toolchain
def test_thunks_of_multiple_inheritance(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int count = 3;
        struct Left { virtual int left() { return 1; } int a = 1; };
        struct Right { virtual int right() = 0; int b = 2; };
        struct Both : Left, Right { int right() override; };
        struct Rival : Left, Right { int right() override; };
        struct Plain : Right { int c = 2; int right() override; };
        NOINLINE int Both::right() { SAMPLE_OBJECT(); return count++; }
        NOINLINE int Rival::right() { SAMPLE_OBJECT(); return count++; }
        NOINLINE int Plain::right() { SAMPLE_OBJECT(); return count++; }
        NOINLINE int call(Right &right) { return right.right() + 1; }
        int main() { Both both; Rival rival; Plain plain; return call(both) + call(rival) + call(plain) - 15; }
    """)
    _, with_vptrs = check_both(program)
    assert {"_ZN4Both5rightEv", "_ZN5Rival5rightEv"} <= set().union(*program.merged())
    for name in ("_ZN4Both5rightEv", "_ZN5Rival5rightEv", "_ZN5Plain5rightEv"):
        assert workshop.toolchain is MOLD or with_vptrs[name] == UNIQUE


@every_toolchain
def test_virtual_bases_and_objects_under_construction(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        struct Root { Root(); virtual int name() = 0; virtual ~Root() {} int a = 1; };
        NOINLINE int ask(Root *root) { return root->name() + 1; }
        Root::Root() {}
        struct Left : virtual Root { Left(); int name() override; int b = 2; };
        struct Right : virtual Root { Right(); int name() override; int c = 2; };
        struct Most : Left, Right { Most(); int name() override; int d = 4; };
        int Left::name() { SAMPLE_OBJECT(); return 3; }
        int Right::name() { SAMPLE_OBJECT(); return 3; }
        int Most::name() { SAMPLE_OBJECT(); return 3; }
        NOINLINE Left::Left() { ask(this); }
        NOINLINE Right::Right() { ask(this); }
        NOINLINE Most::Most() { ask(this); }
        int main() { Left left; Right right; Most most; return ask(&left) + ask(&right) + ask(&most) - 12; }
    """)
    check_both(program)


@every_toolchain
def test_double_dispatch(workshop: Workshop) -> None:
    # `accept` jumps through the vtable of a visitor, which has functions of one body in the slots of both
    program = workshop.build_with_tables("""
        struct Circle; struct Square;
        struct Visitor {
            virtual int name(int) { return 0; }
            virtual int visit(Circle &) { return 1; }
            virtual int visit(Square &) { return 2; }
        };
        struct Shape { virtual ~Shape() = default; virtual int accept(Visitor &visitor) = 0; };
        struct Circle : Shape { int accept(Visitor &visitor) override { return visitor.visit(*this); } };
        struct Square : Shape { int accept(Visitor &visitor) override { return visitor.visit(*this); } };
        struct Area : Visitor { int visit(Circle &) override; int visit(Square &) override; };
        struct Print : Visitor { int visit(Circle &) override; int visit(Square &) override; };
        int Area::visit(Circle &) { SAMPLE_OBJECT(); return 3; }
        int Area::visit(Square &) { SAMPLE_OBJECT(); return 3; }
        int Print::visit(Circle &) { SAMPLE_OBJECT(); return 3; }
        int Print::visit(Square &) { SAMPLE_OBJECT(); return 3; }
        NOINLINE int walk(Shape &shape, Visitor &visitor) { return shape.accept(visitor) + 1; }
        int main() {
            Circle circle; Square square; Area area; Print print;
            return walk(circle, area) + walk(square, area) + walk(circle, print) + walk(square, print) - 16;
        }
    """)
    assert len(program.merged()) == 4
    without, with_vptrs = check_both(program)
    assert without["_ZN4Area5visitER6Circle"] <= OPEN
    assert workshop.toolchain is MOLD or with_vptrs["_ZN4Area5visitER6Circle"] == {"narrowed"}  # to those of its class


@every_toolchain
def test_c_tables_of_functions_beside_vtables(workshop: Workshop) -> None:
    # `pump` makes the same code as `start`, a virtual call of slot 0, and ends in slot 1 of another object's vtable
    program = workshop.build_with_tables("""
        struct Handler { virtual int first() { return 1; } virtual int second() { return 2; } };
        struct Echo : Handler { int first() override; int second() override; };
        int Echo::first() { SAMPLE_OBJECT(); return 3; }
        int Echo::second() { SAMPLE_OBJECT(); return 3; }
        struct Stream;
        struct Table { int (*run)(Stream *); int (*stop)(Stream *); };
        struct Stream { const Table *table; Handler *handler; };
        static int forward(Stream *stream) { return stream->handler->second(); }
        static int direct(Stream *stream) { return stream->handler->first() + 1; }
        const Table forwarding = {forward, direct}, directing = {direct, forward};
        NOINLINE int pump(Stream *stream) { return stream->table->run(stream) + 1; }
        NOINLINE int start(Handler *handler) { return handler->first() + 1; }
        Handler *volatile handler;
        int main() {
            Echo echo;
            handler = &echo;
            Stream one = {&forwarding, handler}, other = {&directing, handler};
            return pump(&one) + pump(&other) + start(handler) - 13;
        }
    """)
    assert {"_ZN4Echo5firstEv", "_ZN4Echo6secondEv"} <= set().union(*program.merged())
    check_both(program)


@every_toolchain
def test_functions_in_objects(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        #include <functional>
        int total;
        NOINLINE int apples(int n) { SAMPLE(); return n + total++; }
        NOINLINE int pears(int n) { SAMPLE(); return n + total++; }
        NOINLINE int plums(int n) { SAMPLE(); return n + total++; }
        struct Basket { virtual int take(const std::function<int(int)> &from) { return from(1) + 1; } };
        NOINLINE int fill(Basket &basket, const std::function<int(int)> &from) { return basket.take(from) + 1; }
        int main() {
            Basket basket;
            std::function<int(int)> one = apples, other = [](int n) { return pears(n); };
            int sum = fill(basket, one) + fill(basket, other) + plums(3);
            return sum + total == 0;
        }
    """)
    check_both(program)


@every_toolchain
def test_destructors(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        int total;
        struct Fruit { virtual ~Fruit(); virtual void sell() = 0; };
        NOINLINE Fruit::~Fruit() { SAMPLE_OBJECT(); ++total; }
        struct Apple : Fruit { int cents = 7; ~Apple() override; void sell() override; };
        struct Pear : Fruit { int cents = 7; ~Pear() override; void sell() override; };
        Apple::~Apple() { SAMPLE_OBJECT(); total += 2; }
        Pear::~Pear() { SAMPLE_OBJECT(); total += 2; }
        void Apple::sell() { SAMPLE_OBJECT(); delete this; }
        void Pear::sell() { SAMPLE_OBJECT(); delete this; }
        NOINLINE void eat(Fruit *fruit) { delete fruit; ++total; }
        NOINLINE void sell(Fruit *fruit) { fruit->sell(); ++total; }
        int main() { eat(new Apple); eat(new Pear); sell(new Apple); sell(new Pear); return total != 16; }
    """)
    with_vptrs = check_both(program)[1]
    for name in ("_ZN5Apple4sellEv", "_ZN4Pear4sellEv"):  # gcc makes them different
        assert workshop.toolchain is MOLD or with_vptrs[name] <= UNIQUE | {"unmerged"}


@every_toolchain
def test_a_pointer_that_an_inlined_destructor_moved(workshop: Workshop) -> None:
    # while ~Base runs inside of `wipe`, the object of Derived::close points to the vtable of Base
    program = workshop.build_with_tables(
        """
        int total;
        NOINLINE void log() { SAMPLE(); ++total; }
        struct Base { virtual void close(); virtual void touch() { ++total; } ~Base() { log(); touch(); } };
        struct Derived final : Base { void close() override; ~Derived() {} };
        NOINLINE void wipe(Base *base) { base->Base::~Base(); ++total; }
        NOINLINE void wipe(Derived *derived) { derived->~Derived(); ++total; }
        void Base::close() { HOLD_OBJECT(2); wipe(this); total += 2; }
        void Derived::close() { HOLD_OBJECT(2); wipe(this); total += 2; }
        NOINLINE void shut(Base *base) { base->close(); total += 3; }
        alignas(Derived) char places[2][sizeof(Derived)];
        #include <new>
        int main() { shut(new (places[0]) Base); shut(new (places[1]) Derived); return total == 0; }
        """,
        ["-fno-exceptions", "-fasynchronous-unwind-tables"],
    )
    assert {"_ZN4Base5closeEv", "_ZN7Derived5closeEv"} <= set().union(*program.merged())
    check_both(program)
