"""Vtable pointers into other modules: a vtable holds functions of the module that defines them, not of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.modules import Modules, Part, Seen, build_modules
from tests.e2e.program import icf, resolved
from tests.e2e.workshop import ALL, GOLD, LLD, MOLD, Workshop
from tests.support.cores import crash

SHAPES = """
    struct Shape { virtual void draw(int); virtual void erase(int); virtual int sides() = 0; int state = 0; };
    Shape *make_own(); Shape *make_mine(); void draw_one(Shape *, int); void erase_one(Shape *, int);
"""
# two functions are folded, and each is exported
LIBRARY = """
    NOINLINE void Shape::draw(int n) { SAMPLE_OBJECT(); state += n; }
    NOINLINE void Shape::erase(int n) { SAMPLE_OBJECT(); state += n; }
    struct Own : Shape { int sides() override { return 1; } };
    NOINLINE void draw_one(Shape *shape, int n) { shape->draw(n); ++shape->state; }
    NOINLINE void erase_one(Shape *shape, int n) { shape->erase(n); shape->state += 2; }
    Shape *make_own() { return new Own; }
"""
PLUGIN = """
    static int count;
    extern "C" NOINLINE void count_first(int n) { SAMPLE(); count += n; }
    extern "C" NOINLINE void count_second(int n) { SAMPLE(); count += n; }
    struct Mine : Shape { int sides() override; };
    int Mine::sides() { return 2; }
    Shape *make_mine() { return new Mine; }
"""
PROGRAM = """
    int count;
    NOINLINE void add_first(int n) { SAMPLE(); count += n; }
    NOINLINE void add_second(int n) { SAMPLE(); count += n; }
    namespace { struct Ours : Shape { int sides() override { return 3; } }; }
    int main(int argc, char **) {
        Shape *shapes[] = {make_own(), make_mine(), new Ours};
        add_first(argc); add_second(argc);
        for (Shape *each : shapes) { draw_one(each, argc); erase_one(each, argc); each->draw(argc); each->erase(argc); }
        return shapes[0]->sides() == 12345;
    }
"""


def parts(*, library: str = LIBRARY, needs: Sequence[str] = (), link_flags: Sequence[str] = ()) -> list[Part]:
    """A library with a class, a plug-in and a program with classes that derive from it."""
    return [
        Part("libshape.so", SHAPES + library, needs, link_flags),
        Part("libplugin.so", SHAPES + PLUGIN, ["libshape.so"]),
        Part("program", SHAPES + PROGRAM, ["libshape.so", "libplugin.so"]),
    ]


def sampled(stacks: list[list[Seen]], module: str) -> list[str]:
    """What was said of the functions of a module that took the samples."""
    return [stack[1].verdict for stack in stacks if stack[1].module == module]


def both(modules: Modules, module: str) -> tuple[list[str], list[str]]:
    """The same without and with vtable pointers; no claim may be wrong."""
    return sampled(modules.check(), module), sampled(modules.check(with_vptrs=True), module)


@pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)
def test_a_vtable_of_another_module_names_the_function(workshop: Workshop) -> None:
    without, with_vptrs = both(build_modules(workshop, parts()), "libshape.so")
    assert without == ["ambiguous"] * 12
    assert with_vptrs == ["unique"] * 12


@pytest.mark.parametrize("toolchain", [GOLD, LLD, replace(LLD, compiler="gcc")], ids=str, indirect=True)
def test_an_inline_method_of_the_program_comes_before_that_of_the_library(workshop: Workshop) -> None:
    shapes = """
        struct Shape {
            virtual int sides();
            virtual NOINLINE void draw(int n) { SAMPLE_OBJECT(); state += n; }
            virtual NOINLINE void erase(int n) { SAMPLE_OBJECT(); state += n; }
            int state = 0;
        };
        Shape *make_shape(); void show(Shape *, int);
    """
    library = """
        int Shape::sides() { return 0; }
        Shape *make_shape() { return new Shape; }
        NOINLINE void show(Shape *shape, int n) { shape->draw(n); shape->erase(n); ++shape->state; }
    """
    program = """
        struct Mine : Shape { int sides() override { return 2; } };
        int main(int argc, char **) {
            Shape *shape = make_shape();
            Mine mine;
            show(shape, argc); show(&mine, argc); shape->draw(argc); shape->erase(argc);
            return shape->sides() == 12345;
        }
    """
    modules = build_modules(
        workshop, [Part("libshape.so", shapes + library), Part("program", shapes + program, ["libshape.so"])]
    )
    without, with_vptrs = both(modules, "program")  # whose copies the loader prefers
    assert without == ["ambiguous"] * 6
    del with_vptrs[2:4]  # of `Mine`, whose own vtable gold leaves without names
    assert with_vptrs == ["unique"] * 4


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_a_vtable_that_each_module_has(workshop: Workshop) -> None:
    shapes = """
        struct Shape {
            virtual NOINLINE void draw(int n) { SAMPLE_OBJECT(); state += n; }
            virtual NOINLINE void erase(int n) { SAMPLE_OBJECT(); state += n; }
            int state = 0;
        };
        Shape *make_left(); Shape *make_right();
        static NOINLINE void show(Shape *shape, int n) { shape->draw(n); shape->erase(n); ++shape->state; }
    """
    left = "Shape *make_left() { Shape *shape = new Shape; show(shape, 1); return shape; }"
    right = "Shape *make_right() { Shape *shape = new Shape; show(shape, 2); return shape; }"
    program = """
        int main() { Shape own; show(make_left(), 1); show(make_right(), 2); show(&own, 3); return own.state == 12345; }
    """
    for flags in ([], ["-Wl,-Bsymbolic"]):
        folder = workshop.folder / f"built{len(flags)}"
        folder.mkdir()
        modules = build_modules(
            Workshop(folder, workshop.toolchain),
            [
                Part("libleft.so", shapes + left, link_flags=flags),
                Part("libright.so", shapes + right, link_flags=flags),
                Part("program", shapes + program, ["libleft.so", "libright.so"]),
            ],
        )
        stacks = modules.check(with_vptrs=True)
        assert [stack[1].verdict for stack in stacks] == ["unique"] * 10


@pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)
def test_exported_functions_that_jump_to_others_by_name(workshop: Workshop) -> None:
    # any exported function may be in the slot, as of a C table; destructors jump to those of bases, by name
    shapes = SHAPES.replace("struct Shape {", "struct Shape { virtual ~Shape();")
    library = LIBRARY.replace("struct Own", "Shape::~Shape() { state = 0; } struct Own")
    built = [
        Part("libshape.so", shapes + library),
        Part("libplugin.so", shapes + PLUGIN, ["libshape.so"]),
        Part("program", shapes + PROGRAM, ["libshape.so", "libplugin.so"]),
    ]
    without, with_vptrs = both(build_modules(workshop, built), "libshape.so")
    assert without == ["ambiguous"] * 12
    assert with_vptrs == ["unique"] * 12


@pytest.mark.parametrize("toolchain", [LLD, MOLD], ids=str, indirect=True)
def test_classes_that_one_module_alone_has(workshop: Workshop) -> None:
    library = """
        namespace {
        struct Quiet : Shape { int sides() override { return 1; } };
        struct Odd : Quiet { void erase(int n) override { state -= n; } };
        }
        extern "C" NOINLINE void erase_quiet(Quiet *quiet, int n) { ++quiet->state; return quiet->erase(n); }
        extern "C" Shape *make_quiet(int n) { return n > 5 ? new Odd : new Quiet; }
    """
    program = """
        extern "C" { void erase_quiet(Shape *, int); Shape *make_quiet(int); }
        int count;
        namespace {
        struct Ours : Shape { int sides() override { return 3; } };
        struct Loud : Ours {
            NOINLINE void draw(int n) override { SAMPLE(); count += n; }
            NOINLINE void erase(int n) override { SAMPLE(); count += n; }
        };
        }
        // jumps by slot 0 of a class of the program, or to where one by slot 1 of a class of the library follows
        NOINLINE void either(Ours *ours, Shape *shape, int n) {
            if (n & 1) { count += 3; return ours->draw(n); }
            ++shape->state;
            return erase_quiet(shape, n);
        }
        int main(int argc, char **) {
            Ours *ours = argc > 5 ? new Loud : new Ours, *loud = new Loud;
            Shape *quiet = make_quiet(argc);
            loud->draw(1); loud->erase(1);
            either(ours, quiet, argc); ++count; either(ours, quiet, argc + 1); ++count;
            return ours->sides() == 12345;
        }
    """
    modules = build_modules(
        workshop, [*parts(library=LIBRARY + library)[:2], Part("program", SHAPES + program, ["libshape.so"])]
    )
    without, with_vptrs = both(modules, "libshape.so")
    assert without[0] == with_vptrs[0] == "ambiguous"  # where the class of the program did not count, it was `erase`
    assert with_vptrs[1] == "unique"


# has a `Shape::draw` of its own that calls the library's `Shape::erase` by a jump
ENTRY = """
    struct Shape;
    extern "C" void shape_erase(Shape *, int) asm("_ZN5Shape5eraseEi");
    extern "C" NOINLINE void other_draw(Shape *shape, int n) asm("_ZN5Shape4drawEi");
    extern "C" NOINLINE void other_draw(Shape *shape, int n) { return shape_erase(shape, n + 1); }
"""


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_a_module_whose_jumps_no_table_has(workshop: Workshop) -> None:
    # nothing is merged in the plug-in, so that its jumps are in no table
    plugin = """
        struct Proxy : Shape {
            Shape *inner = make_own();
            void draw(int n) override { return inner->erase(n + 1); }
            int sides() override { return 2; }
        };
        Shape *make_mine() { return new Proxy; }
    """
    built = [
        Part("libshape.so", SHAPES + LIBRARY),
        Part("libplugin.so", SHAPES + plugin, ["libshape.so"]),
        Part("program", SHAPES + PROGRAM, ["libshape.so", "libplugin.so"]),
    ]
    _, with_vptrs = both(build_modules(workshop, built), "libshape.so")  # nothing is wrong
    assert len(with_vptrs) == 12


MERGED = """
    int total;
    NOINLINE void add_left(int n) { SAMPLE(); total += n; }
    NOINLINE void add_right(int n) { SAMPLE(); total += n; }
"""


@pytest.mark.parametrize("more", ["", MERGED], ids=["jumps unknown", "jumps in tables"])
@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_a_definition_that_stands_before_and_jumps_to_another_member(workshop: Workshop, more: str) -> None:
    modules = build_modules(
        workshop,
        [*parts(), Part("libentry.so", ENTRY + more, ["libshape.so"])],
        environment={"LD_PRELOAD": "libentry.so"},
    )
    _, with_vptrs = both(modules, "libshape.so")  # each frame is truly `erase`
    assert "unique" not in with_vptrs[::2] and len(with_vptrs) == 12


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_a_module_that_is_not_found_may_have_other_functions(workshop: Workshop) -> None:
    modules = build_modules(workshop, parts())
    found = sampled(modules.check(with_vptrs=True), "libshape.so")
    modules.path("libsampler.so").rename(modules.workshop.folder / "gone")
    stacks = resolved("--modules", modules.list_path, modules.workshop.folder / "stacks")
    verdicts = [stack[1]["verdict"] for stack in stacks[2:]]  # of four objects of the library's own class first
    assert found == ["unique"] * 12
    assert verdicts[:4] == ["unique"] * 4 and "unique" not in verdicts[4:6]


STOP = """
    #include <cstdlib>
    #include <unistd.h>
    static NOINLINE void stop(int n) {
        if (n > 2) abort();
        if (n == 2) for (;;) if (write(1, "ready\\n", 6) < 0 || pause()) break;
    }
"""


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_a_core_and_a_running_process(workshop: Workshop) -> None:
    program = """
        int count;
        NOINLINE void add_first(int n) { SAMPLE(); count += n; }
        NOINLINE void add_second(int n) { SAMPLE(); count += n; }
        namespace { struct Ours : Shape { int sides() override { return 3; } }; }
        int main(int argc, char **) {
            if (argc > 9) { add_first(argc); add_second(argc); }
            Shape *shape = argc > 9 ? make_mine() : new Ours;
            draw_one(shape, argc);
            return shape->sides();
        }
    """
    library = STOP + LIBRARY.replace("SAMPLE_OBJECT()", "stop(n)")
    built = [*parts(library=library)[:2], Part("program", SHAPES + program, ["libshape.so", "libplugin.so"])]
    path = build_modules(workshop, built).path("program")
    assert _drawn("--core", crash(path.parent, path, "2", "3")) == ("_ZN5Shape4drawEi", "vptr")
    with subprocess.Popen([path, "2"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        found = _drawn("--pid", str(process.pid))
        process.kill()
    assert found == ("_ZN5Shape4drawEi", "vptr")


def _drawn(*what: str | Path) -> tuple[str, str]:
    """Name and evidence of the frame that `draw_one` called."""
    (thread,) = [json.loads(line) for line in icf("stacks", *what, "--json").splitlines()]
    frames = thread["frames"]
    at = next(idx for idx, frame in enumerate(frames) if "draw_one" in str(frame["linkage_name"]))
    return frames[at - 1]["linkage_name"], frames[at - 1]["evidence"]
