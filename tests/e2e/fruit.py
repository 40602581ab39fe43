"""Programs of fruit: functions that fold, whose members are all named."""

from __future__ import annotations

import pytest

from tests.e2e.program import Program
from tests.e2e.workshop import Toolchain

FRUIT = """
    int total;
    NOINLINE void wash_apples() { SAMPLE(); ++total; }
    NOINLINE void wash_pears() { SAMPLE(); ++total; }
    NOINLINE void apples() { wash_apples(); ++total; }
    NOINLINE void pears() { wash_pears(); ++total; }
    int main() { apples(); pears(); apples(); return total != 6; }
"""


STATIC_FRUIT = """
    int total;
    static NOINLINE void apples() { SAMPLE(); ++total; }
    static NOINLINE void pears() { SAMPLE(); ++total; }
    int main() { apples(); pears(); return 0; }
"""


STALLS = """
    extern int total;
    struct Stall { virtual void open(int n) = 0; virtual void close(int n) = 0; };
    template <class T> struct Of : Stall {
        int sold = 0;
        NOINLINE void open(int n) override { SAMPLE(); total += n; }
        NOINLINE void close(int n) override { count(n); total += n; }
        NOINLINE void count(int n) { SAMPLE(); sold += 2 * n; }
        NOINLINE void clean(int n) { SAMPLE(); sold += 3 * n; }
    };
    struct Apple {}; struct Pear {}; struct Plum {};
"""


FRUITS = ("_Z6applesv", "_Z5pearsv", "_Z11wash_applesv", "_Z10wash_pearsv")


def toolchains(*chosen: Toolchain) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("toolchain", chosen, ids=str, indirect=True)


def assert_all_named(program: Program) -> None:
    assert len(program.merged()) == len(FRUITS)
    verdicts = program.check()
    assert {name: verdicts[name] for name in FRUITS} == dict.fromkeys(FRUITS, {"unique"})
