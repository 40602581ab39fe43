"""Stacks that lack frames: what is missing must not make a name wrong, and what is there still decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.program import Program, icf
from tests.e2e.workshop import Workshop

# `A::leaf` and `B::go` are one body, and only the latter is in a vtable. walk() calls A::go, which calls A::leaf.
VIRTUAL = """
    struct Base { virtual long go(long); virtual ~Base(); };
    struct A : Base { long go(long) override; long leaf(long); };
    struct B : Base { long go(long) override; };
    long sink;
    Base::~Base() {}
    long Base::go(long n) { return n; }
    NOINLINE long A::leaf(long n) { sink += n * 3; return sink ^ 77; }
    NOINLINE long B::go(long n) { sink += n * 3; return sink ^ 77; }
    NOINLINE long A::go(long n) { long r = leaf(n + 1); asm volatile(""); return r + 1; }
    NOINLINE long walk(Base *p, long n) { long r = p->go(n); asm volatile(""); return r + 2; }
    int main(int argc, char **) { A a; B b; return walk(argc > 9 ? (Base *)&b : &a, argc) == 5; }
"""
KEEPS_FRAMES = ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")


def code_of(program: Program, function: str) -> list[dict[str, str]]:
    """Return the instructions of a function."""
    _, *instructions = map(json.loads, icf("disasm", "-e", program.folded, function, "--json").splitlines())
    return instructions


def after_call(program: Program, function: str) -> int:
    """Return the return address of the only call of a function."""
    code = code_of(program, function)
    (at,) = [idx for idx, each in enumerate(code) if each["mnemonic"] in ("call", "bl", "blr")]
    return int(code[at + 1]["address"], 16)


def verdicts(program: Program, folder: Path, functions: tuple[str, ...], lossy: str) -> list[tuple[str, str | None]]:
    """Return verdict and name of the frames of a stack that ends in the last instruction but one of `A::leaf`."""
    addresses = [int(code_of(program, "A::leaf")[-2]["address"], 16)]
    addresses += [after_call(program, function) for function in functions]
    frames = [f"{program.folded}+{address:#x}" for address in addresses]
    (folder / "folded").write_text(f"{';'.join(reversed(frames))} 1\n")
    out = json.loads(icf("resolve", folder / "folded", "--lossy", lossy, "--out", "json"))
    return [(frame["verdict"], frame["name"]) for frame in out["frames"]]


def test_a_caller_that_may_be_missing_decides_nothing(workshop: Workshop, tmp_path: Path) -> None:
    program = workshop.build_with_tables(VIRTUAL, ["-fomit-frame-pointer"])
    # the walk has left out A::go: what walk() calls through the vtable would be B::go, which is wrong
    assert verdicts(program, tmp_path, ("walk",), "fp")[0] == ("ambiguous", None)
    # the whole stack, from an unwinder that reads .eh_frame
    assert verdicts(program, tmp_path, ("A::go", "walk"), "none")[0] == ("unique", "A::leaf(long)")


def test_functions_with_frame_pointers_are_decided_as_before(workshop: Workshop, tmp_path: Path) -> None:
    program = workshop.build_with_tables(VIRTUAL, KEEPS_FRAMES)
    inner, *_ = verdicts(program, tmp_path, ("A::go", "walk"), "fp")
    # gcc gives a leaf no frame all the same: then its caller may be missing
    assert inner in (("unique", "A::leaf(long)"), ("ambiguous", None))
    assert inner[0] == "unique" or workshop.toolchain.compiler == "gcc"


def test_frames_further_out_are_decided(workshop: Workshop, tmp_path: Path) -> None:
    program = workshop.build_with_tables(VIRTUAL, KEEPS_FRAMES)
    assert verdicts(program, tmp_path, ("A::go", "walk", "main"), "fp")[1:] == [
        ("unmerged", "A::go(long)"),
        ("unmerged", "walk(Base*, long)"),
        ("unmerged", "main"),
    ]


EARLY = """
    struct Order {}; struct Payment {};
    long sink;
    NOINLINE long touch(long n) { sink += n; return sink; }
    template <class T> NOINLINE long grow(long n) {
      if (n == 3) return 0;                                 // before there is a frame
      long r = touch(n) * touch(n + 1); asm volatile(""); return r + n;
    }
    NOINLINE long orders(long n) { long r = grow<Order>(n); asm volatile(""); return r + 1; }
    NOINLINE long payments(long n) { long r = grow<Payment>(n); asm volatile(""); return r - 1; }
    int main(int argc, char **) { return orders(argc) + payments(argc) == 5; }
"""


def test_a_function_that_may_return_before_it_has_a_frame(workshop: Workshop, tmp_path: Path) -> None:
    program = workshop.build_with_tables(EARLY, KEEPS_FRAMES)
    instructions = code_of(program, "long grow<Order>(long)")
    called = next(idx for idx, each in enumerate(instructions) if each["mnemonic"] in ("call", "bl"))
    inner = int(code_of(program, "touch")[0]["address"], 16), int(instructions[called + 1]["address"], 16)
    for caller, function in (("orders", "Order"), ("payments", "Payment")):
        addresses = [*inner, after_call(program, caller)]
        frames = [f"{program.folded}+{address:#x}" for address in addresses]
        (tmp_path / "folded").write_text(f"{';'.join(reversed(frames))} 1\n")
        out = json.loads(icf("resolve", tmp_path / "folded", "--lossy", "fp", "--out", "json"))
        assert out["frames"][1]["name"] == f"long grow<{function}>(long)"


# first and last are one body: with its own frame lost, both() looks as if it had left by its tail call
BOTH = """
    long sink;
    NOINLINE long first(long n) { sink += n * 3; return sink ^ 77; }
    NOINLINE long last(long n) { sink += n * 3; return sink ^ 77; }
    NOINLINE long both(long n) { long r = first(n); sink += r; return last(n + 1); }
    NOINLINE long once(long n) { long r = first(n + 1); asm volatile(""); return r + 1; }
    NOINLINE long deep(long n) { long r = last(n + 2); asm volatile(""); return r + 3; }
    NOINLINE long twice(long n) { long r = first(n) * deep(n); asm volatile(""); return r + 2; }
    NOINLINE long calls_both(long n) { long r = both(n); asm volatile(""); return r + 4; }
    NOINLINE long calls_once(long n) { long r = once(n); asm volatile(""); return r + 5; }
    NOINLINE long calls_twice(long n) { long r = twice(n); asm volatile(""); return r + 6; }
    int main(int argc, char **) { return calls_both(argc) + calls_once(argc) + calls_twice(argc) == 5; }
"""


def innermost(program: Program, caller: str, lossy: str) -> dict[str, Any]:
    """Return the frame at the entry of `first` and `last` in a stack that lacks what `caller` has called."""
    entry = int(code_of(program, "first")[0]["address"], 16)
    stack = program.folded.with_name("stack")
    stack.write_text(f"{entry:#x} {after_call(program, caller):#x}\n")
    found = json.loads(icf("resolve", "-e", program.folded, "--lossy", lossy, "--out", "json", stack))
    frame: dict[str, Any] = found["frames"][0]
    return frame


def test_what_a_missing_frame_may_have_called(workshop: Workshop) -> None:
    program = workshop.build_with_tables(BOTH, KEEPS_FRAMES)
    named = innermost(program, "calls_both", "none")  # as if nothing were missing
    assert (named["name"], [each["name"] for each in named["missing"]]) == ("last(long)", ["both(long)"])
    for lossy in ("fp", "any"):
        frame = innermost(program, "calls_both", lossy)
        assert (frame["verdict"], frame["reason"]) == ("ambiguous", "caller-may-be-missing")
        assert innermost(program, "calls_once", lossy)["name"] == "first(long)"
    frame = innermost(program, "calls_once", "none")  # the stack shows that a frame is missing
    assert (frame["verdict"], frame["candidate_names"]) == ("narrowed", ["first(long)"])
    assert (frame["reason"], frame["reason_text"]) == (
        "frame-missing",
        "a frame of once(long) is missing between it and its caller",
    )


def test_more_frames_than_one_may_be_missing_where_functions_have_none(workshop: Workshop) -> None:
    program = workshop.build_with_tables(BOTH, ["-fomit-frame-pointer"])
    # if twice() and deep() are missing it is last(); one frame, that of twice(), leaves first()
    assert innermost(program, "calls_twice", "fp")["verdict"] == "ambiguous"
    assert innermost(program, "calls_twice", "any")["name"] == "first(long)"
