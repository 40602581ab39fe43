"""Static functions of one name in several files are several functions: each call means that of its own file."""

from __future__ import annotations

import pytest

from tests.e2e.workshop import GOLD, LLD, LLD_ALONE, Toolchain, Workshop

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


@pytest.mark.parametrize("toolchain", [GOLD, LLD, LLD_ALONE, Toolchain("gcc", "lld")], ids=str, indirect=True)
def test_the_line_is_that_of_the_file_of_the_caller(workshop: Workshop) -> None:
    program = workshop.build_with_tables(SOURCES)
    assert len({stack.split()[1] for stack in program.stacks()}) == 1
    found = [(frames[1]["verdict"], frames[1]["file"][-5:], frames[2]["name"]) for frames in program.resolve()]
    assert found == [("unique", "a.cpp", "from_a(int)"), ("unique", "b.cpp", "from_b(int)")]
