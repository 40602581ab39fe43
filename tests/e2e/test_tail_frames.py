"""Frames of tail calls: what gdb shows on the link without folding is shown on the folded one."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.e2e.program import Program, icf
from tests.e2e.workshop import GOLD, LLD, Workshop
from tests.support.gdb_frames import GdbFrame, functions_between, stacks
from tests.support.toolchain import tool

SOURCE = """
    volatile int seed = 1;
    int total;
    NOINLINE void apples(int n) { SAMPLE(); total += n; }
    NOINLINE void pears(int n) { SAMPLE(); total += n; }
    NOINLINE void wash_apples(int n) { total += 1; apples(n + 1); }
    NOINLINE void wash_pears(int n) { total += 1; pears(n + 1); }
    NOINLINE void pack(int n) { total += 2; wash_pears(n + 2); }

    NOINLINE void sell_apples(int n) { total ^= n; wash_apples(n); total += 5; }
    NOINLINE void sell_pears(int n) { total ^= n; wash_pears(n); total += 5; }
    NOINLINE void trade_apples(int n) { total -= 3; sell_apples(n + 7); }
    NOINLINE void trade_pears(int n) { total -= 3; sell_pears(n + 7); }

    NOINLINE void arrive(int n) { SAMPLE(); total -= n; }
    NOINLINE void left(int n) { total += 11; arrive(n * 3); }
    NOINLINE void right(int n) { total += 12; arrive(n * 5); }
    NOINLINE void fork(int n) { if (total & 1) left(n); else right(n); }
    NOINLINE void enter(int n) { total += 13; fork(n + 1); }

    NOINLINE void odd(int n);
    NOINLINE void even(int n) { if (n == 0) { SAMPLE(); ++total; } else odd(n - 1); }
    NOINLINE void odd(int n) { if (n == 0) { SAMPLE(); --total; } else even(n - 1); }

    int main() {
        apples(seed); wash_apples(seed); wash_pears(seed); pack(seed);
        sell_apples(seed); sell_pears(seed); trade_apples(seed); trade_pears(seed);
        arrive(seed); left(seed); fork(seed); enter(seed);
        even(seed + 2); odd(seed + 2);
        return 0;
    }
"""
CLANG_FLAGS = ("-gdwarf-4", "-ggdb")  # gdb 13 does not know clang's way of telling tail calls in DWARF 5


BUILDS = pytest.mark.parametrize(
    ("toolchain", "flags"), [(GOLD, ()), (LLD, CLANG_FLAGS)], ids=["gcc-gold", "clang-lld"], indirect=["toolchain"]
)


@BUILDS
def test_the_frames_that_gdb_shows_without_folding_are_shown(workshop: Workshop, flags: tuple[str, ...]) -> None:
    gdb = tool("gdb")
    program = workshop.build_with_tables(SOURCE, flags)
    assert len(program.merged()) >= 4
    ours = [functions_between(stack) for stack in _resolved(program)]
    theirs = [functions_between(stack) for stack in stacks(gdb, program.unfolded, ["record_stack"])]
    theirs = [frames[1:] for frames in theirs]
    assert len(ours) == len(theirs) == 14
    shown = 0
    for mine, reference in zip(ours, theirs, strict=True):
        assert [name for name, _ in mine] == [name for name, _ in reference]
        for (_, missing), (_, expected) in zip(mine, reference, strict=True):
            assert _is_part(expected, missing)  # gdb leaves open what a fork begins with
            shown += len(expected)
    assert shown >= 12


@BUILDS
def test_no_frame_is_shown_that_was_not_there(workshop: Workshop, flags: tuple[str, ...]) -> None:
    program = workshop.build_with_tables(SOURCE, flags)
    ours = _resolved(program)
    program = workshop.build(SOURCE, (*flags, "-fno-optimize-sibling-calls"))
    truths = [[names for names in stack if names][1:] for stack in program.truth()]
    assert len(ours) == len(truths) == 14
    for mine, truth in zip(ours, truths, strict=True):
        assert all(len(names) == 1 for names in truth)
        assert _is_part([frame.linkage_name for frame in mine], [min(names) for names in truth])
    assert sum(frame.tail_call for stack in ours for frame in stack) >= 14


@BUILDS
def test_a_jump_through_a_vtable_leaves_a_frame_out(workshop: Workshop, flags: tuple[str, ...]) -> None:
    source = """
        int total;
        struct Shape { virtual void draw(int) = 0; virtual void hide(int) {} };
        struct Round : Shape { void draw(int) override; };
        struct Square : Shape { void draw(int) override; };
        NOINLINE void Round::draw(int n) { SAMPLE(); total += n; }
        NOINLINE void Square::draw(int n) { SAMPLE(); total += n; }
        NOINLINE void pass(Shape *shape, int n) { total -= 3; shape->draw(n + 1); }
        NOINLINE void send(Shape *shape, int n) { total += 4; pass(shape, n * 3); }
        NOINLINE void by(Shape *shape, int n) { send(shape, n); total += 2; }
        Shape *volatile shapes[] = {new Round, new Square};
        int main() { for (Shape *shape : shapes) by(shape, total); return 0; }
    """
    program = workshop.build_with_tables(source, flags)
    assert len(program.merged()) == 2
    for frames in _resolved(program):
        assert not frames[0].linkage_name and not frames[0].tail_call
        assert [(frame.linkage_name, frame.tail_call) for frame in frames[1:]] == [
            ("_Z4passP5Shapei", True),
            ("_Z4sendP5Shapei", True),
            ("_Z2byP5Shapei", False),
            ("main", False),
        ]


def _resolved(program: Program) -> list[list[GdbFrame]]:
    """What is said of the folded program's stacks, from the caller of the sampler out to main."""
    stacks = program.folded.with_name("stacks")
    stacks.write_text("".join(f"{stack}\n" for stack in program.stacks()))
    found = []
    for line in icf("resolve", "-e", program.folded, "--out", "json", stacks).splitlines():
        frames = [
            GdbFrame(each["linkage_name"], each is not frame)
            for frame in json.loads(line)["frames"]
            for each in (frame, *frame.get("missing", ()))
        ]
        found.append(frames[1 : frames.index(GdbFrame("main", False)) + 1])
    return found


def _is_part(some: Sequence[str], of: Sequence[str]) -> bool:
    """Whether all of `some` are in `of`, in that order."""
    rest = iter(of)
    return all(name in rest for name in some)
