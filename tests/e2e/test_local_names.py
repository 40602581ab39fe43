"""Static functions of one name in several files are several functions: each call means that of its own file."""

from __future__ import annotations

import pytest

from tests.e2e.program import icf
from tests.e2e.workshop import GOLD, LLD, LLD_ALONE, Toolchain, Workshop

GCC_LLD_ALONE = Toolchain("gcc", "lld")

FILE = """
    extern volatile int total;
    static NOINLINE int init(int n) { SAMPLE(); total += n; return n * 7 + total; }
    NOINLINE int from_%(name)s(int n) { return init(n) + %(number)d; }
"""
MAIN = "volatile int total; int from_a(int), from_b(int); int main(int n, char **) { return from_a(n) == from_b(n); }"
SOURCES = {
    "a.cpp": FILE % {"name": "a", "number": 1},
    "b.cpp": FILE % {"name": "b", "number": 2},
    "main.cpp": MAIN,
}


@pytest.mark.parametrize("toolchain", [GOLD, LLD, LLD_ALONE, GCC_LLD_ALONE], ids=str, indirect=True)
def test_the_line_is_that_of_the_file_of_the_caller(workshop: Workshop) -> None:
    program = workshop.build_with_tables(SOURCES)
    assert len({stack.split()[1] for stack in program.stacks()}) == 1
    found = [(frames[1]["verdict"], frames[1]["file"][-5:], frames[2]["name"]) for frames in program.resolve()]
    assert found == [("unique", "a.cpp", "from_a(int)"), ("unique", "b.cpp", "from_b(int)")]


# gcc gives `f<2.5>` the name f<2.5e+0>: its `e` is no identifier, and the DIE is not that of e::f<3>
NUMBERS = {
    "main.cpp": """
    volatile int total;
    namespace {
    template <double> NOINLINE int f(int n) { SAMPLE(); total += n; return n * 7 + total; }
    namespace e { template <int> NOINLINE int f(int n) { SAMPLE(); total += n; return n * 7 + total; } }
    }
    NOINLINE int of_fraction(int n) { return f<2.5>(n) + 1; }
    NOINLINE int of_number(int n) { return e::f<3>(n) + 2; }
    int main(int n, char **) { return of_fraction(n) == of_number(n); }
    """
}


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD_ALONE], ids=str, indirect=True)
def test_a_fraction_in_a_name_is_no_identifier(workshop: Workshop) -> None:
    program = workshop.build_with_tables(NUMBERS, ["-std=c++20"])
    assert len({stack.split()[1] for stack in program.stacks()}) == 1
    of_fraction, of_number = (frames[1]["name"] for frames in program.resolve())
    if workshop.toolchain.linker == "gold":  # it drops the symbol of the folded one
        assert (of_fraction, of_number) == ("int (anonymous namespace)::f<0x1.4p+1>(int)", "f<3>")
    else:  # lld leaves the address of one DIE, which both symbols fit
        assert of_fraction in (None, "int (anonymous namespace)::f<0x1.4p+1>(int)")
        assert of_number in (None, "int (anonymous namespace)::e::f<3>(int)")


# gcc compiles the first without -g, and describes it in the link, by the names of its clones of the destructors
CLONES = {
    "nuts.cpp": """
    extern volatile int total;
    namespace {
    struct Nut { virtual ~Nut() { SAMPLE(); total += 1; } };
    struct Pecan : virtual Nut { NOINLINE ~Pecan() { SAMPLE(); total += 4; } };
    struct Walnut : virtual Nut { NOINLINE ~Walnut() { SAMPLE(); total += 4; } };
    struct Pie : Pecan {};
    struct Cake : Walnut {};
    }
    NOINLINE void pecan() { Pie pie; total += 2; }
    NOINLINE void walnut() { Cake cake; total += 3; }
    """,
    "main.cpp": "volatile int total; void pecan(), walnut(); int main() { pecan(); walnut(); total += 1; return 0; }",
}


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_a_destructor_has_the_name_of_its_class_not_that_of_a_clone(workshop: Workshop) -> None:
    nuts = workshop.compile({"nuts.cpp": CLONES["nuts.cpp"]}, "-flto", "-g0", "-fno-ipa-cp")
    main = workshop.compile({"main.cpp": CLONES["main.cpp"]}, "-flto")
    program = workshop.program([*nuts, *main, workshop.sampler()], ["-flto", "-O2", "-g", "-ffunction-sections"])
    assert b"__dt_del \0" in program.folded.read_bytes()
    program.add_tables()
    assert program.resolve()[0][1]["candidate_names"] == ["(anonymous namespace)::Pecan::~Pecan()", "~Walnut"]
    program.add_tables("--icf-report", program.report)  # then no body may have further functions
    shown = icf("symbolize", "-i", "-e", program.folded, *program.stacks()[1].split()).splitlines()
    assert [line for line in shown if "~" in line] == ["~Nut", "(anonymous namespace)::Pie::~Pie()"]


OPERATORS = """
    volatile int total;
    namespace { struct Cart {
    int n;
    NOINLINE bool operator<(int) const { SAMPLE(); total += 1; return true; }
    NOINLINE bool operator!() const { SAMPLE(); total += 1; return true; }
    }; }
    int main(int n, char **) { Cart cart{n}; total += cart < n; total += !cart; return 0; }
"""


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD_ALONE], ids=str, indirect=True)
def test_the_die_of_one_operator_is_not_that_of_another(workshop: Workshop) -> None:
    program = workshop.build_with_tables(OPERATORS)
    assert len({stack.split()[1] for stack in program.stacks()}) == 1
    for frames, name, line in zip(program.resolve(), ("operator<", "operator!"), (5, 6), strict=True):
        assert name in (frames[1]["name"] or name)
        assert frames[1]["line"] in (None, line)
    assert frames[1]["verdict"] == "unique"


NESTED = """
    int total;  void record_stack(void);
    static NOINLINE void f(int n) {
        NOINLINE void inner(int m) { record_stack(); total += 2; }
        inner(n); total += 3;
    }
    static NOINLINE void g(int n) {
        NOINLINE void inner(int m) { record_stack(); total += 2; }
        inner(n); total += 3;
    }
    int main(void) { f(1); total += 1; g(2); total += 2; return 0; }
"""


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD_ALONE], ids=str, indirect=True)
def test_nested_functions_of_c_have_one_name(workshop: Workshop) -> None:
    program = workshop.build_with_tables({"main.c": NESTED}, ["-xc"])
    assert len({stack.split()[1] for stack in program.stacks()}) == 1
    for frames, line in zip(program.resolve(), (4, 8), strict=True):
        assert frames[1]["line"] in (None, line)
        assert frames[2]["verdict"] == "unique"
