"""Values at the entry of functions: what a caller passed counts only if its call entered the function itself."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support import toolchain
from tests.support.core_stacks import CoreStack
from tests.support.cores import crash
from tests.support.gdb_parameters import take_cores
from unwind.objects.expressions import Lack
from unwind.objects.parameters import read_parameters
from unwind.objects.this import object_of, read_objects

# `n` is in a register that calls do not save, and not needed after the call
SOURCE = """
    #include <cstdlib>
    #define NOINLINE __attribute__((noinline, noclone))
    extern volatile int total;
    volatile int total;
    static int (*volatile pointer)(int);
    NOINLINE void stop(int n) { total += n; if (total != -1) abort(); }
    NOINLINE int direct(int n) { stop(n + 1); return total + 1; }
    NOINLINE int pointed(int n) { stop(n + 2); return total + 2; }
    NOINLINE int landed(int n) { stop(n + 3); return total + 3; }
    NOINLINE int jumping(int n) { total += 1; return landed(n + 40); }
    NOINLINE int again(int n) { if (total == 0) { total = 1; return again(n + 7); } stop(n); return total; }
    NOINLINE int kept(int n, int twice) { return (twice ? direct(n) : jumping(n)) + total + n; }
    int main(int argc, char **argv) {
        int how = atoi(argv[1]), n = 100 * argc + how;
        pointer = pointed;
        switch (how) {
            case 0: total = direct(n) + n; break;
            case 1: total = pointer(n) + n; break;
            case 2: total = jumping(n) + n; break;
            case 3: total = again(n) + n; break;
            case 4: total = kept(n, 1) + n; break;
        }
        return total + n;
    }
"""


@cache
def program(compiler: str) -> Path:
    folder = toolchain.lasting_folder()
    (folder / "entry.cpp").write_text(SOURCE)
    command = [toolchain.tool(compiler), "-O2", "-g", "-fno-pie", "-no-pie", "entry.cpp", "-o", "entry"]
    toolchain.run(*command, "-fno-inline", folder=folder)
    return folder / "entry"


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_an_argument_is_what_the_caller_passed(compiler: str) -> None:
    values = {}
    for how, name in enumerate(("direct", "pointed", "landed", "again", "direct")):
        core = crash(program(compiler).parent, program(compiler), str(how))
        with CoreStack(core) as stack:
            scopes = [scope for at in stack.stack() for scope in read_parameters(at, stack)]
        values[how] = {scope.name: each.value for scope in scopes for each in scope.parameters if scope.name != "main"}
        assert name in values[how]
    assert values[0]["direct"] == 200
    assert values[1]["pointed"] is None  # the call does not say what it enters
    assert values[2]["landed"] is None  # the call entered another function
    assert values[3]["again"] in (None, 203)
    assert values[4]["direct"] in ((204,) if compiler == "g++" else (204, None))  # clang does not say what it passes
    if compiler == "g++":  # one value leads to the next
        assert [values[how]["stop"] for how in range(5)] == [201, None, None, None, 205]


def test_functions_at_one_body_must_agree_on_the_object() -> None:
    core = crash(program("g++").parent, program("g++"), "0")
    with CoreStack(core) as stack:
        frames = stack.stack()
        assert read_objects(frames, stack) == {
            idx: found for idx, at in enumerate(frames) if (found := object_of(at, stack))
        }
        described = [at for at in frames if at.functions]
        assert [object_of(at, stack) for at in described] == [None] * len(described)  # their first parameters are int


UNOPTIMIZED = """
    struct Shape { long pad; virtual int draw(int n); };
    static volatile int total;
    __attribute__((noinline)) int leaf(int n) { total += n; return total; }
    int Shape::draw(int n) { int found = leaf(n); return found + pad; }
    struct Big { long words[5]; };
    struct Maker { long pad; virtual Big make(int n); };
    Big Maker::make(int n) { Big big = {}; big.words[1] = leaf(n) + pad; return big; }
    int main() { Shape shape; Maker maker; return shape.draw(3) + maker.make(4).words[1]; }
"""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_parameters_that_are_not_stored_yet(compiler: str, tmp_path: Path) -> None:
    program = tmp_path / "shapes"
    (tmp_path / "shapes.cpp").write_text(UNOPTIMIZED)
    toolchain.run(toolchain.tool(compiler), "-O0", "-g", tmp_path / "shapes.cpp", "-o", program)
    gdb = toolchain.tool("gdb")
    # the first instruction of each; draw after `push %rbp`; and where its body begins
    stops = ["*_ZN5Shape4drawEi", "*((char *)&_ZN5Shape4drawEi + 1)", "Shape::draw", "*_ZN5Maker4makeEi", "Maker::make"]
    found = []
    for event in take_cores(gdb, program, stops, tmp_path, limit=5):
        with CoreStack(event.core) as stack:
            at = stack.stack()[0]
            (scope,) = read_parameters(at, stack)
            (this,) = (each for each in scope.parameters if each.is_object)
            if this.value is not None:
                assert this.value == stack.registers[4 if scope.name == "make" else 5] == object_of(at, stack)
            found.append((scope.name, this.lack))
    assert found == [
        ("draw", None),
        ("draw", Lack.IN_PROLOGUE),
        ("draw", None),
        ("make", Lack.IN_PROLOGUE),  # the first argument is where the result goes
        ("make", None),
    ]
