"""`icf resolve` names virtual functions by objects in copied stacks, and not where an object may have been replaced.

Each object has a function of its own that calls a method: its name says which class it is.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.support.toolchain import link, run, tool

SOURCE = """
    #include <new>
    #define NOINLINE __attribute__((noinline))
    extern volatile long total;
    volatile long total;
    struct Shape { long pad = 1; virtual void draw(); virtual void flipped(); virtual ~Shape() {} };
    void Shape::draw() {}  void Shape::flipped() {}
    NOINLINE void spin() { for (long n = 0; n < 5000000; ++n) total += n; }
    NOINLINE void flip(Shape *s);
    #define METHODS(T) \\
        struct T : Shape { void draw() override; void flipped() override; }; \\
        void T::draw() { spin(); total += pad; } \\
        void T::flipped() { flip(this); spin(); total += pad; }
    METHODS(Circle)
    METHODS(Disc)
    NOINLINE void flip(Shape *s) { new (s) Disc; }
    NOINLINE void use(Shape *s, int how) { if (how) s->draw(); else s->flipped(); total += 1; }
    NOINLINE Circle *make() { return new Circle; }
    NOINLINE void of_circle() { Circle circle; use(&circle, 1); total += 2; }
    NOINLINE void of_disc() { Disc disc; use(&disc, 1); total += 3; }
    NOINLINE void of_heap() { use(make(), 1); total += 4; }
    NOINLINE void of_flipped() { Circle circle; use(&circle, 0); total += 5; }
    int main() { of_circle(); of_disc(); of_heap(); of_flipped(); return 0; }
"""
CLASSES = {"of_circle": "Circle", "of_disc": "Disc", "of_heap": "Circle", "of_flipped": "Circle"}
BUILDS = [("clang++", "lld"), ("g++", "gold")]
Answers = dict[str, Counter[tuple[str, str | None]]]


def answers(program: Path, recording: Path, *options: str) -> Answers:
    """The verdicts and the evidence of the method in all samples, by the function that has the object."""
    found: Answers = {}
    for line in icf("resolve", recording, "--out", "json", *options).splitlines():
        frames = json.loads(line)["frames"]
        names = [str(frame["name"]).partition("(")[0] for frame in frames]
        owner = next((name for name in names if name in CLASSES), None)
        if owner is not None and "spin" in names:
            method = frames[names.index("spin") + 1]
            true = f"_ZN{len(CLASSES[owner])}{CLASSES[owner]}{'7flipped' if owner == 'of_flipped' else '4draw'}Ev"
            assert method["linkage_name"] in (None, true), method
            assert method["linkage_name"] or true in method["candidates"], method
            found.setdefault(owner, Counter())[method["verdict"], method["evidence"]] += 1
    return found


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_objects_in_copied_stacks(build: tuple[str, str], tmp_path: Path) -> None:
    perf, (compiler, linker) = tool("perf"), build
    if run(perf, "record", "-q", "-e", "cpu-clock", "-o", tmp_path / "try", "--", "true", check=False).returncode:
        pytest.skip("perf may not record here")
    source, made, recording = tmp_path / "shapes.cpp", tmp_path / "shapes.o", tmp_path / "perf.data"
    source.write_text(SOURCE)
    options = (
        ["-fno-ipa-icf", "-fno-ipa-cp", "-fno-ipa-ra", "-fno-devirtualize-speculatively"] if compiler == "g++" else []
    )
    run(tool(compiler), "-g", "-O2", *options, "-ffunction-sections", "-c", source, "-o", made)
    folded = link(tmp_path / "folded", linker, made, "-Wl,--icf=all")
    icf("pass", folded, "--objects", made)
    icf("record", "--call-graph", "dwarf", "-e", "cpu-clock", "-F", "1000", "-o", recording, "--", folded)
    found = answers(folded, recording)
    assert set(found) == set(CLASSES)
    for owner in ("of_circle", "of_disc"):
        assert set(found[owner]) == {("unique", "vptr")}, found
    for owner in ("of_heap", "of_flipped"):
        assert {verdict for verdict, _ in found[owner]} == {"ambiguous"}, found
    ignored = answers(folded, recording, "--no-vptr")
    assert {verdict for each in ignored.values() for verdict, _ in each} == {"ambiguous"}
    # what is added up before it is resolved has the same names
    text = icf("resolve", recording, "--out", "collapsed")
    assert ";Circle::draw();" in text and ";Disc::draw();" in text
