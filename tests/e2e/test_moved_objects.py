"""Objects that a call of a frame has replaced: their vtable pointers no longer say what called the frame."""

from __future__ import annotations

import json

import pytest

from tests.e2e.program import Program, icf
from tests.e2e.workshop import GOLD, LLD, Workshop

SHAPES = """
    #include <new>
    #include <cstdlib>
    extern int total;
    int total;
    struct S { long pad = 1; virtual void next(); virtual void other(); };
    struct A : S { void next() override; void other() override; };
    struct B : S { void next() override; void other() override; };
    void flip(S *s);
    void far(int n, S *s);
    S *make(int n);
    NOINLINE void tick(int n) { SAMPLE(); total += n; }
    void S::next() {}
    void S::other() {}
    void A::next() { HOLD_OBJECT(1); BEFORE; tick(1); sampled_objects[1] = nullptr; total += 3; }
    void B::next() { HOLD_OBJECT(1); BEFORE; tick(1); sampled_objects[1] = nullptr; total += 3; }
    void A::other() { HOLD_OBJECT(1); total += 5; tick(2); sampled_objects[1] = nullptr; total += 5; }
    void B::other() { HOLD_OBJECT(1); total += 5; tick(2); sampled_objects[1] = nullptr; total += 5; }
    NOINLINE void flip(S *s) { new (s) B; }
    NOINLINE void far(int n, S *s) { total += n; flip(s); ++total; }
    NOINLINE S *make(int n) { if (n) return new A; return new B; }
    int main() {
        S *a = make(1), *b = make(0);
        asm volatile("" : "+r"(a), "+r"(b));
        a->other(); b->other(); b->next(); a->next();
        return total == 77;
    }
"""
WAYS = {
    "directly": "flip(this)",
    "through another": "far(1, this)",
    "deleted": "total += pad; std::free(this); make(0)",
}


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_replaced_the_object(workshop: Workshop, way: str) -> None:
    program = workshop.build_with_tables(SHAPES, [f"-DBEFORE={WAYS[way]}"])
    assert {frozenset({"_ZN1A4nextEv"}), frozenset({"_ZN1B4nextEv"})} <= program.merged()
    verdicts = program.check(with_vptrs=True)
    assert verdicts["_ZN1A4nextEv"] == {"ambiguous"}
    evidence = {frame["evidence"] for frames in program.resolve(with_vptrs=True) for frame in frames if frame["name"]}
    stacks = program.folded.with_name("stacks")  # as `resolve` has written them
    lines = icf("resolve", "-e", program.folded, "--no-vptr", "--out", "json", stacks).splitlines()
    ignored = [json.loads(line) for line in lines]
    assert "vptr" in evidence
    assert {frame["verdict"] for stack in ignored for frame in stack["frames"] if frame["candidates"]} == {"ambiguous"}
    assert verdicts["_ZN1A5otherEv"] == verdicts["_ZN1B5otherEv"] == {"unique"}  # a call that does not get the object


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_a_shared_object_calls_its_own_functions_by_name(workshop: Workshop) -> None:
    source = SHAPES.replace("int main()", "int run()")
    (main,) = workshop.compile({"main.cpp": source}, "-DBEFORE=flip(this)", "-fPIC")
    (loader,) = workshop.compile({"loader.cpp": "int run(); int main() { return run(); }"})
    images, loaders, reports = [], [], []
    for folding in ("all", "none"):
        inputs = [main, workshop.sampler("-fPIC")]
        options = ["-shared", f"-Wl,-soname,lib{folding}.so"]
        image, report = workshop.link(f"lib{folding}.so", inputs, folding, options)
        images.append(image)
        reports.append(report)
        loaders.append(workshop.link(f"loader.{folding}", [loader, image], "none")[0])
    program = Program(images[0], images[1], reports[0], (loaders[0], loaders[1]))
    program.add_tables()
    verdicts = program.check(with_vptrs=True)
    assert verdicts["_ZN1A4nextEv"] == {"ambiguous"}
    assert verdicts["_ZN1A5otherEv"] == {"unique"}
