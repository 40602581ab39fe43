"""Parameters of frames in cores of real programs: as gdb reads them, where gdb reads what was there."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.support import toolchain
from tests.support.core_stacks import CoreStack
from tests.support.gdb_parameters import GdbScope, take_cores
from unwind.objects.activation import Activation
from unwind.objects.expressions import Lack
from unwind.objects.parameters import ParameterValue, ScopeValues, read_parameters

SHAPES = """
    #include <cstdlib>
    #define NOINLINE __attribute__((noinline))
    static volatile int total;
    NOINLINE int leaf(int n) { total += n; return total; }
    struct Big { long words[5]; };
    struct Named { const char *name = "n"; virtual int length(); virtual ~Named() {} };
    struct Shape {
        int pad = 3;
        virtual int area(int scale) = 0;
        virtual int draw(const char *text, double size, unsigned char mark) = 0;
        virtual Big big(int n) = 0;
        virtual ~Shape() {}
    };
    struct Circle : Shape {
        int radius = 2;
        int area(int scale) override { int found = leaf(scale); return found + radius; }
        int draw(const char *text, double size, unsigned char mark) override {
            int found = area(3) + mark;
            leaf(4);
            return found + radius + text[0] + int(size);
        }
        Big big(int n) override { Big found = {}; found.words[1] = leaf(n); found.words[2] = pad; return found; }
    };
    struct Label : Shape, Named {
        int width = 7;
        int length() override { int found = leaf(width); return found + width; }
        int area(int scale) override { return leaf(scale) + length() + width; }
        int draw(const char *, double, unsigned char mark) override { return leaf(mark) + inner(mark) + leaf(width); }
        int inner(int depth) { return depth ? leaf(width) : 0; }
        Big big(int n) override { Big found = {}; found.words[1] = leaf(n) + width; return found; }
    };
    int Named::length() { return leaf(1) + name[0]; }
    NOINLINE int measure(Named *named, int &count) { int found = named->length(); ++count; return found; }
    NOINLINE int render(Shape *shape, int times) {
        int found = shape->draw("x", 2.5, 200) + times;
        return found + shape->area(times) + int(shape->big(5).words[1]) + shape->pad;
    }
    int main(int argc, char **) {
        Circle circle;
        Label label;
        int count = 0;
        int found = render(&circle, argc) + render(&label, argc) + measure(&label, count);
        return found + count == 3;
    }
"""
BUILDS = [
    ("g++", "-O0", 5, ()),
    ("clang++", "-O0", 4, ()),
    ("g++", "-O2", 4, ()),
    ("g++", "-O2", 5, ()),
    ("clang++", "-O2", 4, ()),
    ("clang++", "-O2", 5, ()),
    ("g++", "-O2", 5, ("-gsplit-dwarf",)),
    ("clang++", "-O2", 4, ("-gsplit-dwarf",)),
    ("g++", "-Og", 3, ("-gstrict-dwarf",)),
    ("g++", "-O2", 5, ("-gdwarf64",)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "level", "version", "more"), BUILDS, ids=str)
def test_parameters_are_those_that_gdb_reads(
    compiler: str, level: str, version: int, more: tuple[str, ...], tmp_path: Path
) -> None:
    gdb = toolchain.tool("gdb")
    program = tmp_path / "shapes"
    (tmp_path / "shapes.cpp").write_text(SHAPES)
    toolchain.run(
        toolchain.tool(compiler), level, f"-gdwarf-{version}", *more, "shapes.cpp", "-o", program, folder=tmp_path
    )
    seen: Counter[str] = Counter()
    for event in take_cores(gdb, program, ["leaf"], tmp_path, limit=12):
        with CoreStack(event.core) as core:
            stack = core.stack()
            ours = {at.frame.pc: read_parameters(at, core) for at in stack if at.functions}
            theirs: dict[int, list[GdbScope]] = defaultdict(list)
            for each_of_gdb in event.scopes:
                theirs[each_of_gdb.pc].append(each_of_gdb)
            assert [pc for pc in ours if pc in theirs] == list(ours)
            for pc, scopes in ours.items():
                assert len(scopes) == len(theirs[pc]), (scopes, theirs[pc])
                for scope, gdb_scope in zip(scopes, theirs[pc], strict=True):
                    assert set(gdb_scope.parameters) <= {each.name for each in scope.parameters}
                    seen.update(_compare(each, scope, gdb_scope, stack) for each in scope.parameters if each.name)
    assert seen["same this"] + seen["better this"] >= (8 if level == "-O0" else 3), seen
    assert seen["same"] + seen["better"] >= 30, seen


def _compare(ours: ParameterValue, scope: ScopeValues, gdb_scope: GdbScope, stack: list[Activation]) -> str:
    """Return how a value compares with gdb's; fails unless it is the same, or known not to be known."""
    theirs = gdb_scope.parameters[ours.name]
    what = " this" if ours.is_object else ""
    if ours.value is None:
        # gdb reads registers that calls do not save in all frames as they are in the innermost one
        innermost = [value for value in stack[0].frame.registers if value is not None]
        masks = [(1 << bits) - 1 for bits in (8, 16, 32, 64)]
        is_stale = ours.lack is Lack.NO_REGISTER and any(
            (theirs or 0) & mask == value & mask for value in innermost for mask in masks
        )
        assert theirs is None or is_stale or ours.type == "double", (scope.name, ours, theirs)
        return "unknown" + what
    assert theirs is None or int(ours.value) & (1 << 64) - 1 == theirs, (scope.name, ours, hex(theirs))
    return ("better" if theirs is None else "same") + what
