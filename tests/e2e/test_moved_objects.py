"""Objects that a call of a frame has replaced: their vtable pointers no longer say what called the frame."""

from __future__ import annotations

import json

import pytest

from icf.elf.image import Image
from tests.e2e.modules import Part, build_modules
from tests.e2e.program import Program, icf
from tests.e2e.workshop import GOLD, LLD, Workshop
from tests.support.toolchain import run, tool

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


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_a_function_without_a_symbol_may_have_replaced_the_object(workshop: Workshop) -> None:
    source = SHAPES.replace("void flip(S *s);", "S *volatile current; namespace { void turn(); } void flip(S *s);", 1)
    source = source.replace("HOLD_OBJECT(1); BEFORE; tick(1);", "HOLD_OBJECT(2); current = this; turn();")
    source = source.replace(
        "NOINLINE void flip", "namespace { NOINLINE void turn() { new (current) B; tick(1); ++total; } }\nvoid flip"
    )
    program = workshop.build_with_tables(source.replace("sampled_objects[1]", "sampled_objects[2]", 2), ["-g0"])
    assert program.check(with_vptrs=True)["_ZN1A4nextEv"] == {"ambiguous"}  # its code has the address of a vtable
    run(tool("objcopy"), "-N", "_ZN12_GLOBAL__N_14turnEv", program.folded)
    assert program.check(with_vptrs=True)["_ZN1A4nextEv"] == {"ambiguous"}


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_a_stub_of_the_linker_replaces_no_object(workshop: Workshop) -> None:
    program = workshop.build_with_tables(SHAPES, ["-DBEFORE=tick(0)"])
    program.check(with_vptrs=True)
    lines = program.folded.with_name("stacks").read_text().splitlines()  # as `check` has written them
    with Image.open(program.folded) as image:
        stub = next(iter(image.plt_stubs))
        section = image.section(".plt")
        assert section is not None and section.vaddr not in image.plt_stubs
    evidence = {}
    for inner in (stub, stub + 4, section.vaddr):
        stacks = program.folded.with_name("stub.stacks")
        stacks.write_text("".join(f"{inner:#x} {' '.join(line.split()[1:])}\n" for line in lines))
        answers = icf("resolve", "-e", program.folded, "--out", "json", stacks).splitlines()
        evidence[inner] = {frame["evidence"] for line in answers for frame in json.loads(line)["frames"]}
    assert "vptr" in evidence[stub] and "vptr" in evidence[stub + 4] and "vptr" not in evidence[section.vaddr]


@pytest.mark.parametrize("does", ["new (s) B", "s->pad++"])
@pytest.mark.parametrize("call", ["turn(this)", "turn(this); tick(1)"], ids=["on the stack", "returned"])
@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_a_function_of_another_module_that_replaced_the_object(workshop: Workshop, call: str, does: str) -> None:
    classes = """
        #include <new>
        struct S { long pad = 1; virtual void next(); };
        struct A : S { void next() override; };
        struct B : S { void next() override; };
        void turn(S *s);
    """
    program = """
        int total;
        NOINLINE void tick(int n) { SAMPLE(); total += n; }
        void S::next() {}
        void A::next() { HOLD_OBJECT(1); CALL; sampled_objects[1] = nullptr; total += 3; }
        void B::next() { HOLD_OBJECT(1); CALL; sampled_objects[1] = nullptr; total += 3; }
        NOINLINE void go(S *s) { s->next(); ++total; }
        int main() { A a; B b; go(&a); go(&b); return total == 77; }
    """
    sample = "" if "tick" in call else "SAMPLE();"
    plugin = f"""
        int turned;
        void turn(S *s) {{ {does}; {sample} ++turned; }}
        NOINLINE void one(int n) {{ SAMPLE(); turned += n; }}
        NOINLINE void two(int n) {{ SAMPLE(); turned += n; }}
    """  # a module without merged functions has no table of its jumps, and is not trusted
    parts = [
        Part("libplugin.so", classes + plugin, link_flags=["-Wl,-z,lazy"]),
        Part("program", classes + program.replace("CALL", call), ["libplugin.so"], ["-rdynamic"]),
    ]
    modules = build_modules(workshop, parts)
    stacks = modules.check(with_vptrs=True)
    of_a = [seen for stack in stacks for seen in stack if "_ZN1A4nextEv" in seen.truth]
    assert of_a and {seen.verdict for seen in of_a} == {"ambiguous" if "new" in does else "unique"}
