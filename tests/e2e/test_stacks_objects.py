"""`icf stacks` names virtual functions by the objects in a core, and not where an object may have been replaced.

The same objects are linked with folding and without it, and both programs crash at the same place: frame k of the one
is frame k of the other, whose names are the truth.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.support.cores import crash
from tests.support.toolchain import lasting_folder, link, run, tool

SOURCE = """
    #include <cstdlib>
    #include <new>
    #include <unistd.h>
    #define NOINLINE __attribute__((noinline))
    extern volatile int total;
    volatile int total;
    struct Big { long words[4]; };
    struct Shape {
        long pad = 1;
        virtual void draw(); virtual void flipped(); virtual void deleted(); virtual void far(); virtual Big big();
        virtual void visit(Shape *other); virtual void inner();
        virtual ~Shape() {}
    };
    NOINLINE void tick(int n) {
        total += n;
        if (getenv("WAIT")) for (;;) { if (write(1, "", 1) < 0) abort(); pause(); }
        if (total > 0) abort();
    }
    NOINLINE void flip(Shape *s);
    NOINLINE void far_flip(int n, Shape *s) { total += n; flip(s); total += 1; }
    NOINLINE Shape *make(int n);
    void Shape::draw() {}  void Shape::flipped() {}  void Shape::deleted() {}  void Shape::far() {}
    void Shape::visit(Shape *) {}  void Shape::inner() {}
    Big Shape::big() { return {}; }
    #define METHODS(T) \\
        struct T : Shape { void draw() override; void flipped() override; void deleted() override; \\
            void far() override; Big big() override; void visit(Shape *) override; void inner() override; }; \\
        void T::draw() { total += 1; tick(5); total += pad; } \\
        void T::flipped() { flip(this); tick(6); total += pad; } \\
        void T::deleted() { total += pad; std::free(this); make(0); tick(7); total += 3; } \\
        void T::far() { far_flip(1, this); tick(8); total += pad; } \\
        Big T::big() { Big found = {}; tick(9); found.words[1] = pad + total; return found; } \\
        void T::visit(Shape *other) { total += pad; other->inner(); total += pad; } \\
        void T::inner() { total += 11; tick(11); total += pad + pad; }
    METHODS(Circle)
    METHODS(Disc)
    METHODS(Star)
    struct Holder { Circle circle; NOINLINE void use(Shape *s) { total += 3; s->draw(); total += 4; } };
    NOINLINE void flip(Shape *s) { new (s) Disc; }
    NOINLINE Shape *make(int n) { if (n == 1) return new Circle; if (n == 2) return new Star; return new Disc; }
    struct Node { Node *next; long pad; virtual void visit() {} virtual void count() {} virtual ~Node() {} };
    #define NODES(T, Base) \\
        struct T : Base { void visit() override; void count() override; }; \\
        void T::visit() { tick(pad); total += pad; if (next) static_cast<T *>(next)->T::visit(); } \\
        void T::count() { for (long n = 0; n < 9; ++n) { tick(pad); total += n * pad; } total += pad; }
    NODES(Leaf, Node)
    NODES(Twig, Leaf)
    NODES(Root, Twig)
    NOINLINE Node *grow(int n) { if (n == 1) return new Leaf; if (n == 2) return new Twig; return new Root; }
    NOINLINE void run_nodes(int first, int second, int how) {
        Node *node = grow(first);
        node->next = grow(second); node->next->pad = 30; node->pad = how == 7 ? 1 - total : 30;
        total = -1;
        if (how == 7) node->visit(); else node->count();
        total += 1;
    }
    NOINLINE void run(Shape *s, Shape *other, int how) {
        total -= 1000;
        if (how < 10) total += 1000;
        switch (how % 10) {
            case 0: s->draw(); break;
            case 1: s->flipped(); break;
            case 2: s->deleted(); break;
            case 3: s->far(); break;
            case 4: total += s->big().words[1]; break;
            case 5: s->visit(other); break;
            case 6: { Holder holder; holder.use(other); break; }
        }
        total += 1;
    }
    int main(int argc, char **argv) {
        if (atoi(argv[3]) > 6) { run_nodes(atoi(argv[1]), atoi(argv[2]), atoi(argv[3])); return total; }
        Shape *s = make(atoi(argv[1])), *other = make(atoi(argv[2]));
        run(s, other, atoi(argv[3]));
        return total + argc;
    }
"""
BUILDS = [
    ("g++", ("-O2", "-fno-ipa-icf", "-fno-devirtualize-speculatively"), "gold"),
    ("g++", ("-O0",), "gold"),
    ("clang++", ("-O2",), "lld"),
]
DRAW, FLIPPED, DELETED, FAR, BIG, VISIT, HOLDER, LOOP, COUNT = range(9)


@cache
def programs(compiler: str, flags: tuple[str, ...], linker: str) -> tuple[Path, Path]:
    """The program with folding and with its tables, and without folding."""
    folder = lasting_folder()
    (folder / "shapes.cpp").write_text(SOURCE)
    run(tool(compiler), "-g", *flags, "-ffunction-sections", "-c", "shapes.cpp", "-o", "shapes.o", folder=folder)
    folded = link(folder / "folded", linker, folder / "shapes.o", "-Wl,--icf=all")
    apart = link(folder / "single", linker, folder / "shapes.o", "-Wl,--icf=none")
    icf("pass", folded, "--objects", folder / "shapes.o")
    return folded, apart


def stack(program: Path, *arguments: int, options: tuple[str, ...] = ()) -> list[dict[str, object]]:
    """The frames of our functions where the program crashes, innermost first."""
    core = crash(program.parent, program, *map(str, arguments))
    (thread,) = [json.loads(line) for line in icf("stacks", "--core", core, "--json", *options).splitlines()]
    frames: list[dict[str, object]] = thread["frames"]
    names = [str(frame["linkage_name"] or frame["candidates"]) for frame in frames]
    return frames[next(at for at, name in enumerate(names) if "tick" in name) + 1 : _last_main(names)]


def _last_main(names: list[str]) -> int:
    return next(at for at, name in enumerate(names) if name in ("main", "['main']")) + 1


def _truth(frame: dict[str, object]) -> object:
    """The name of a frame of the program that was not folded, which may have no table."""
    candidates = frame["candidates"]
    assert isinstance(candidates, list)
    return frame["linkage_name"] or (candidates[0] if len(candidates) == 1 else None)


def check(build: tuple[str, tuple[str, ...], str], *arguments: int) -> list[dict[str, object]]:
    """The frames of the folded program; fails where a name is wrong, or the true one is excluded."""
    folded, apart = (stack(program, *arguments) for program in programs(*build))
    assert len(folded) == len(apart)
    for frame, true in zip(folded, apart, strict=True):
        name, candidates = _truth(true), frame["candidates"]
        assert name and isinstance(candidates, list)
        assert frame["linkage_name"] in (None, name)
        assert frame["linkage_name"] or name in candidates
    return folded


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_virtual_functions_are_named_by_their_objects(build: tuple[str, tuple[str, ...], str]) -> None:
    for kind, name, how in ((0, "Disc", DRAW), (2, "Star", DRAW), (1, "Circle", BIG), (2, "Star", VISIT)):
        frames = check(build, kind, 1, how)
        method = frames[0] if how != VISIT else frames[1]
        if how == BIG and build[0] == "clang++" and "-O2" in build[1]:
            continue  # the compiler says nowhere where the object is
        assert name in str(method["linkage_name"]) and method["verdict"] == "unique", (how, frames)
        assert method["evidence"] == "vptr"
        if how == VISIT:
            assert frames[0]["linkage_name"] == "_ZN6Circle5innerEv"
    ignored = stack(programs(*build)[0], 0, 1, DRAW, options=("--no-vptr",))
    assert ignored[0]["verdict"] == "ambiguous"


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_an_object_that_may_have_been_replaced_decides_nothing(build: tuple[str, tuple[str, ...], str]) -> None:
    for kind, how in ((1, FLIPPED), (2, DELETED), (1, FAR)):
        frames = check(build, kind, 1, how)
        assert frames[0]["verdict"] == "ambiguous", (how, frames)


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_an_object_that_begins_with_another_does_not_count_as_that(build: tuple[str, tuple[str, ...], str]) -> None:
    frames = check(build, 0, 2, HOLDER)
    assert frames[0]["linkage_name"] == "_ZN4Star4drawEv"


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_a_method_that_goes_on_with_another_object(build: tuple[str, tuple[str, ...], str]) -> None:
    """Compilers make a loop of it: `this` is the second object, and the first one was called."""
    frames = check(build, 1, 2, LOOP)
    if build[0] == "clang++":
        assert [frame["verdict"] for frame in frames if frame["candidates"]] == ["ambiguous"], frames
    frames = check(build, 3, 1, COUNT)  # a loop with one object
    assert (frames[0]["linkage_name"], frames[0]["evidence"]) == ("_ZN4Root5countEv", "vptr")


@pytest.mark.slow
def test_objects_of_a_running_process() -> None:
    """The child's objects are on the heap: what the stack points to is copied with it."""
    folded, _ = programs(*BUILDS[2])
    found = []
    for arguments in (("1", "1", str(DRAW)), ("2", "1", str(FAR))):
        process = subprocess.Popen([folded, *arguments], stdout=subprocess.PIPE, env={**os.environ, "WAIT": "1"})
        try:
            assert process.stdout is not None and process.stdout.read(1) == b"\0"
            (thread,) = map(json.loads, icf("stacks", "--pid", str(process.pid), "--json").splitlines())
        finally:
            process.kill()
            process.wait()
        found += [(frame["linkage_name"], frame["verdict"], frame["evidence"]) for frame in thread["frames"]]
    assert ("_ZN6Circle4drawEv", "unique", "vptr") in found
    assert not any("far" in str(name) and "flip" not in str(name) for name, _, _ in found)
