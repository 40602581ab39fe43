"""Methods of local classes that leave no trace: a slot of a vtable leads to a function of another class."""

from __future__ import annotations

import json

import pytest

from icf.folds import unseen_methods
from tests.e2e.program import icf
from tests.e2e.workshop import GOLD, Workshop

CLASSES = """
    extern int total;
    struct First { virtual ~First() {} virtual int one() { return 1; } int a = 1; };
    struct Second { virtual ~Second() {} virtual int two() { return 2; } int b = 2; };
    struct Plain { char head[12]; int field; int read() const; };
    Second *make();
"""
SOURCES = {
    "plain.cpp": CLASSES
    + """
    int total;
    NOINLINE int Plain::read() const { SAMPLE(); total += field; return total + 2; }
    NOINLINE int through_pointer(Second *s) { int n = s->two(); total += 1; return n; }
    NOINLINE int direct(const Plain &p) { int n = p.read(); total += 2; return n; }
    int main() { Plain p{{}, 5}; int n = direct(p) + through_pointer(make()); total += n; return 0; }
    """,
    "thunk.cpp": CLASSES
    + """
    namespace {
      struct Both : First, Second {
        int c = 7;
        int two() override;
      };
      int Both::two() { SAMPLE(); total += c; return total + 2; }
    }
    Second *make() { return new Both; }
    """,
}
LOCAL_CLASSES = """
    #include <exception>
    #include <streambuf>
    extern int total;
    int total;
    template <class T> struct Base { virtual ~Base() {} virtual int one() { SAMPLE(); return total + 1; } T item{}; };
    namespace {
      struct Kind {};
      struct Error : std::exception {
        const char *what() const noexcept override { SAMPLE(); return "error"; }
      };
      struct Buffer : std::streambuf {
        int sync() override { SAMPLE(); total += 3; return 0; }
      };
      template <class T> struct Derived : Base<T>, Error { int two() { int n = this->one(); return n + 2; } };
    }
    template <class T> NOINLINE int two_of(T &each) { SAMPLE(); total += each.two(); return total; }
    NOINLINE int sync(std::streambuf &buffer) { int n = buffer.pubsync(); total += n; return total; }
    NOINLINE int what(const std::exception &error) { int n = error.what()[0]; total += n; return total; }
    int main() {
      Derived<Kind> first;
      Derived<int> second;
      Buffer buffer;
      int n = two_of(first) + two_of(second) + sync(buffer) + what(first) + what(Error());
      return n == 1;
    }
"""
THUNK = "_ZThn16_N12_GLOBAL__N_14Both3twoEv"


RTTI = pytest.mark.parametrize("rtti", ["-frtti", "-fno-rtti"])


@RTTI
@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_a_folded_thunk_of_a_local_class_leaves_its_body_open(workshop: Workshop, rtti: str) -> None:
    program = workshop.build(SOURCES, flags=[rtti])
    assert program.merged() == {frozenset({"_ZNK5Plain4readEv"}), frozenset({THUNK})}
    program.add_tables()
    found = program.check_names()
    assert found[THUNK] == found["_ZNK5Plain4readEv"] == {"ambiguous"}
    assert found["main"] == found["_Z15through_pointerP6Second"] == {"unmerged"}


@RTTI
@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_methods_that_local_classes_inherit_are_theirs(workshop: Workshop, rtti: str) -> None:
    program = workshop.build_with_tables(LOCAL_CLASSES, flags=[rtti])
    found = program.check()
    assert found.pop("record_stack") == {"ambiguous"}  # the sampler has no debug information
    assert found.keys() >= {"_ZN4BaseIiE3oneEv", "_ZNK12_GLOBAL__N_15Error4whatEv"}
    assert set().union(*found.values()) == {"unmerged", "unique"}


IGNORES_ITS_OBJECT = """
    extern int total;
    int total;
    struct First { virtual int one() { return 1; } int a = 1; };
    struct Second { virtual int two() = 0; int b = 2; };
    namespace {
    %s
    }
    Both both;
    Second *volatile second = &both;
    int main() { int n = second->two(); total += n; return 0; }
"""
ITS_OWN = "struct Both : First, Second { int two() override { SAMPLE(); total += 7; return total + 2; } };"
OF_A_BASE = """
    struct Mid : First, Second {
      virtual int three() = 0;  // so that no object has the vtable of this class
      int two() override { SAMPLE(); total += 7; return total + 2; }
    };
    struct Both : Mid { int three() override { return total + 9; } };
"""


@pytest.mark.parametrize(
    ("classes", "thunk"),
    [(ITS_OWN, THUNK), (OF_A_BASE, THUNK.replace("4Both", "3Mid"))],
    ids=["its own", "of a base"],
)
@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_a_thunk_folded_with_the_method_leaves_the_body_open(workshop: Workshop, classes: str, thunk: str) -> None:
    program = workshop.build_with_tables(IGNORES_ITS_OBJECT % classes, flags=["-fno-ipa-icf"])
    assert program.check_names()[thunk] == {"ambiguous"}


TWINS = """
    extern int total;
    int total;
    struct Shape { virtual int draw() = 0; };
    namespace {
      struct Circle : Shape { int draw() override { SAMPLE(); return total + 2; } };
      struct Square : Shape { int draw() override { SAMPLE(); return total + 2; } };
    }
    Circle circle;
    Square square;
    Shape *volatile shapes[] = {&circle, &square};
    int main() { for (Shape *shape : shapes) total += shape->draw(); return 0; }
"""


@pytest.mark.parametrize(
    "limit, source",
    [("_BASES_MAX", LOCAL_CLASSES), ("LEVELS_MAX", LOCAL_CLASSES), ("_DIES_MAX", TWINS)],
    ids=["bases", "levels", "DIEs"],
)
@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_bodies_with_too_many_classes_to_read_are_open(
    workshop: Workshop, limit: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_members() -> set[str]:
        program = workshop.build_with_tables(source)
        classes = json.loads(icf("dump", "--folds", "--json", program.folded))["classes"]
        members = [each["members"] for each in classes if "members-complete" not in each["flags"]]
        return {member["linkage_name"] for each in members for member in each}

    of_sampler = open_members()  # it has no debug information
    monkeypatch.setattr(unseen_methods, limit, 0)
    assert open_members() > of_sampler


THUNKS = """
    #define WORK try { leaf(this); if (total & 1) throw 1; total += 7; } catch (int) { leaf(this); ++total; }
    extern int total;
    int total;
    struct Side { int q; virtual void d(); };
    struct Root { int pad; virtual void a() = 0; virtual void c() = 0; };
    void Side::d() { total += 9; }
    static NOINLINE void leaf(void *p) { SAMPLE(); total += p != nullptr; }
    extern Root *volatile root;
    namespace {
      struct Impl : Side, Root {
        void a() override { WORK }
        void c() override { WORK }
      };
    }
    static Root *make() { return new Impl; }
    Root *volatile root;
    NOINLINE void enter() { root = make(); root->a(); total += 1; root->c(); total += 2; }
    int main() { enter(); return 0; }
"""


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
@pytest.mark.parametrize("level", ["-g", "-g1", "-g0"])
def test_two_slots_of_a_vtable_have_two_functions(workshop: Workshop, level: str) -> None:
    """gcc copies both methods into thunks, which fold; gold drops one symbol, and that of its cold part."""
    flags = ["-fPIC", "-fno-ipa-icf", "-fno-devirtualize", "-fno-devirtualize-speculatively"]
    program = workshop.build(THUNKS, [level, *flags])
    assert any(name.startswith("_ZThn") for names in program.merged() for name in names)
    program.add_tables()
    program.check_names()
