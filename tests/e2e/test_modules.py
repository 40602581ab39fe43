"""Calls between an executable and shared objects, all linked with folding: stacks of run-time addresses."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from icf.cli import main as icf_main
from tests.e2e.modules import Modules, Part, Seen, build_modules
from tests.e2e.program import icf
from tests.e2e.workshop import ALL, GOLD, LLD, MOLD, Workshop

# two and two functions are folded in each module; what they call by name keeps callers apart
FRUIT = """
    extern "C" {
    int total;
    NOINLINE void apples(int n) { SAMPLE(); total += n; }
    NOINLINE void pears(int n) { SAMPLE(); total += n; }
    NOINLINE void pick_apples(int n) { apples(n + 1); ++total; }
    NOINLINE void pick_pears(int n) { pears(n + 1); ++total; }
    NOINLINE __attribute__((visibility("hidden"))) void hidden_plums(int n) { SAMPLE(); total -= n; }
    NOINLINE __attribute__((visibility("hidden"))) void hidden_figs(int n) { SAMPLE(); total -= n; }
    NOINLINE void plums(int n) { hidden_plums(n); ++total; }
    NOINLINE void figs(int n) { hidden_figs(n); total += 2; }
    NOINLINE void each(void (*one)(int), int n) { for (int i = 0; i < n; ++i) { one(i); ++total; } }
    }
"""
BASKET = """
    extern "C" {
    void apples(int), pears(int), pick_apples(int), pick_pears(int), each(void (*)(int), int);
    int weight;
    NOINLINE void red(int n) { apples(n); ++weight; }
    NOINLINE void green(int n) { pears(n); ++weight; }
    NOINLINE void round(int n) { SAMPLE(); weight += n; }
    NOINLINE void long_(int n) { SAMPLE(); weight += n; }
    NOINLINE void straight_to_apples(int n) { weight += n; return apples(n); }
    NOINLINE void straight_to_pears(int n) { weight -= n; return pears(n); }
    NOINLINE void back(void (*one)(int), int n) { ++weight; return each(one, n); }
    }
"""
PROGRAM = """
    extern "C" {
    void apples(int), pears(int), pick_apples(int), pick_pears(int), plums(int), figs(int), each(void (*)(int), int);
    void red(int), green(int), round(int), long_(int), straight_to_apples(int), straight_to_pears(int);
    void back(void (*)(int), int);
    int count;
    NOINLINE void one(int n) { SAMPLE(); count += n; }
    NOINLINE void other(int n) { SAMPLE(); count += n; }
    NOINLINE void never_pointed_at(int n) { SAMPLE(); count += n; }
    NOINLINE void by_round(int n) { round(n); count += 3; }
    NOINLINE void by_long(int n) { long_(n); count += 3; }
    }
    NOINLINE static void point() { each(apples, 1); ++count; }
    int main(int argc, char **argv) {
        apples(argc); pears(argc); pick_apples(argc); pick_pears(argc); plums(argc); figs(argc);
        red(argc); green(argc); by_round(argc); by_long(argc);
        straight_to_apples(argc); straight_to_pears(argc);
        each(one, 1); each(other, 1); back(one, 1); point(); never_pointed_at(argc);
        return count + argc == 12345;
    }
"""
PARTS = [
    Part("libfruit.so", FRUIT),
    Part("libbasket.so", BASKET, ["libfruit.so"]),
    Part("program", PROGRAM, ["libbasket.so", "libfruit.so"]),
]


def verdicts(stacks: list[list[Seen]], function: str) -> set[str]:
    """What was said of the frames of a function."""
    return {seen.verdict for stack in stacks for seen in stack if function in seen.truth}


def merged(modules: Modules, stacks: list[list[Seen]]) -> int:
    """How many of the functions seen share their address with another one."""
    functions: dict[tuple[str, int], set[frozenset[str]]] = {}
    for stack in stacks:
        for seen in stack:
            if seen.truth:
                base = max(base for base, _ in modules.loaded() if base <= int(seen.frame["address"], 16))
                functions.setdefault((seen.module, int(seen.frame["address"], 16) - base), set()).add(seen.truth)
    return sum(len(names) for names in functions.values() if len(names) > 1)


@pytest.mark.parametrize("flags", [(), ("-fno-plt",)], ids=["plt", "got"])
@pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)
def test_a_call_into_another_module_means_what_it_names(workshop: Workshop, flags: tuple[str, ...]) -> None:
    modules = build_modules(workshop, PARTS, flags)
    stacks = modules.check()
    assert merged(modules, stacks) >= 8
    named = ["pick_apples", "pick_pears", "hidden_plums", "hidden_figs", "red", "green"]
    if workshop.toolchain.linker != "mold":  # which folds callers of different imports, if those are at one address
        named += ["round", "long_"]
    for function in named:
        assert verdicts(stacks, function) <= {"unique", "unmerged"}, function
    for stack in stacks:
        fruit, caller = stack[1], stack[2]
        if not fruit.truth & {"apples", "pears"}:
            continue
        if "each" in caller.truth:  # which had nothing but a pointer, and both are exported
            assert fruit.verdict == "ambiguous"
        elif caller.verdict == "unmerged" or workshop.toolchain.linker != "mold":
            assert fruit.verdict == "unique", caller
        else:
            assert fruit.verdict in ("unique", "ambiguous")
    # a callback is one of those whose address is taken
    callbacks = [stack[1] for stack in stacks if stack[1].truth & {"one", "other"}]
    assert len(callbacks) == 3 and all(set(seen.frame["candidates"]) >= {"one", "other"} for seen in callbacks)
    if workshop.toolchain.link_flags == LLD.link_flags:
        assert {len(seen.frame["candidates"]) for seen in callbacks} == {2}
    assert verdicts(stacks, "never_pointed_at") == {"unique"}


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_definitions_that_stand_before_others(workshop: Workshop) -> None:
    # one jumps on to a sibling of what it stands before, another is folded in its own module
    before = """
        extern "C" { void pears(int); int mine;
        NOINLINE void apples(int n) { mine += n; return pears(n); }
        NOINLINE void pick_pears(int n) { SAMPLE(); mine += n; }
        NOINLINE void unasked(int n) { SAMPLE(); mine += n; } }
    """
    parts = [PARTS[0], PARTS[1], Part("libbefore.so", before, ["libfruit.so"]), PARTS[2]]
    stacks = build_modules(workshop, parts, environment={"LD_PRELOAD": "libbefore.so"}).check()
    picked = [seen for stack in stacks for seen in stack if "pick_pears" in seen.truth]
    assert [seen.module for seen in picked] == ["libbefore.so"]
    assert picked[0].verdict == ("unmerged" if workshop.toolchain is GOLD else "unique")  # gold does not fold those
    assert verdicts(stacks, "apples") == set() and "unique" in verdicts(stacks, "pears")


@pytest.mark.parametrize("toolchain", [GOLD, LLD, MOLD], ids=str, indirect=True)
def test_versions_of_a_symbol(workshop: Workshop) -> None:
    library = """
        extern "C" { int total;
        NOINLINE void old_weigh(int n) { SAMPLE(); total += n; }
        NOINLINE void new_weigh(int n) { SAMPLE(); total -= n; }
        NOINLINE void like_old(int n) { SAMPLE(); total += n; }
        NOINLINE void like_new(int n) { SAMPLE(); total -= n; }
        }
        __asm__(".symver old_weigh, weigh@V1"); __asm__(".symver new_weigh, weigh@@V2");
    """
    program = """
        extern "C" { void old(int), weigh(int), like_old(int), like_new(int); int count; }
        __asm__(".symver old, weigh@V1");
        int main(int n, char **) { old(n); weigh(n); like_old(n); like_new(n); return ++count == 99; }
    """
    script = workshop.folder / "versions"
    script.write_text("V1 { global: weigh; local: old_weigh; new_weigh; }; V2 { global: weigh; like_*; } V1;")
    library_part = Part("libweigh.so", library, link_flags=[f"-Wl,--version-script={script}"])
    stacks = build_modules(workshop, [library_part, Part("program", program, ["libweigh.so"])]).check()
    assert [stack[1].verdict for stack in stacks] == ["unique"] * 4
    assert [stack[1].frame["linkage_name"] for stack in stacks][2:] == ["like_old", "like_new"]


def test_a_module_that_is_opened_later(workshop: Workshop) -> None:
    plugin = """
        extern "C" { void apples(int), pears(int); int loaded;
        NOINLINE __attribute__((visibility("hidden"))) void first(int n) { apples(n); ++loaded; }
        NOINLINE __attribute__((visibility("hidden"))) void second(int n) { pears(n); ++loaded; }
        void start(int n) { first(n); second(n); ++loaded; } }
    """
    program = """
        #include <dlfcn.h>
        #include <stdlib.h>
        extern "C" { void apples(int); int count; }
        int main(int argc, char **) {
            apples(argc);
            void *plugin = dlopen("libplugin.so", RTLD_NOW | RTLD_LOCAL);
            if (!plugin) abort();
            ((void (*)(int)) dlsym(plugin, "start"))(argc);
            return ++count == 99;
        }
    """
    parts = [PARTS[0], Part("libplugin.so", plugin, ["libfruit.so"])]
    stacks = build_modules(workshop, [*parts, Part("program", program, ["libfruit.so"])]).check()
    assert [seen.verdict for stack in stacks for seen in stack[1:3] if {"apples", "pears"} & seen.truth] == [
        "unique"
    ] * 3


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_modules_that_are_elsewhere(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    modules = build_modules(workshop, PARTS)
    everything = [[seen.frame for seen in stack] for stack in modules.check()]
    listed = json.loads(modules.list_path.read_text())
    stacks = workshop.folder / "stacks"
    root, fruit = workshop.folder / "root", modules.path("libfruit.so")

    def resolve(*options: str | Path) -> list[list[dict[str, object]]]:
        lines = icf("resolve", "--modules", modules.list_path, "--out", "json", *options, stacks).splitlines()
        return [json.loads(line)["frames"] for line in lines]

    # moved below a root: by its path there, or by its name
    (root / str(fruit.parent)[1:]).mkdir(parents=True)
    moved = root / str(fruit)[1:]
    shutil.move(fruit, moved)
    assert resolve("--module-root", root) == everything
    shutil.move(moved, root / "libfruit.so")
    assert resolve("--module-root", root) == everything
    assert "libfruit.so" not in capsys.readouterr().err
    # not to be found: its frames are unknown, the others have what remains
    frames = resolve()
    assert capsys.readouterr().err.count(f"icf: warning: {fruit}: no such file: its frames are unknown\n") == 1
    assert {frame["verdict"] for stack in frames for frame in stack if frame["module"] is None} == {"unknown"}
    assert [frame["linkage_name"] for frame in frames[-1]] == [frame["linkage_name"] for frame in everything[-1]]
    # a file of another build in its place, the right one in a tree of build ids
    with (root / "libfruit.so").open("rb"):
        build_id = _build_id(root / "libfruit.so")
    next(module for module in listed if module["path"] == str(fruit))["build_id"] = build_id
    modules.list_path.write_text(json.dumps(listed))
    shutil.copy(modules.path("libbasket.so"), fruit)
    tree = workshop.folder / "tree" / ".build-id" / build_id[:2]
    tree.mkdir(parents=True)
    shutil.copy(root / "libfruit.so", tree / build_id[2:])
    assert resolve("--debug-root", workshop.folder / "tree") == everything
    # not to be found any more: what is kept of the build serves, and without that its frames are unknown
    assert resolve() == everything and "libfruit.so" not in capsys.readouterr().err
    resolve("--cache-dir", workshop.folder / "empty")
    assert f"icf: warning: {fruit}: has build id " in capsys.readouterr().err


def _build_id(path: Path) -> str:
    from icf.elf.image import Image

    with Image.open(path) as image:
        return image.build_id.hex()


@pytest.mark.parametrize("toolchain", [replace(LLD, link_flags=())], ids=str, indirect=True)
def test_modules_that_overlap_are_refused(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    modules = build_modules(workshop, PARTS[:1], with_tables=False)
    path = str(modules.path("libfruit.so"))
    modules.list_path.write_text(json.dumps([{"path": path, "bias": 0x10000}, {"path": path, "bias": 0x10800}]))
    assert icf_main(["resolve", "--modules", str(modules.list_path), os.devnull]) == 1
    problem = f"icf: error: {path} at 0x10800 overlaps {path}, which ends at 0x"
    assert capsys.readouterr().err.startswith(problem)


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str, indirect=True)
def test_virtual_functions_of_several_modules(workshop: Workshop) -> None:
    shapes = """
        struct Shape {
            virtual ~Shape(); virtual void draw(int); virtual void erase(int); virtual void pass(Shape *, int);
            int state = 0;
        };
    """
    library = """
        Shape::~Shape() {}
        void Shape::draw(int n) { SAMPLE(); state += n; }
        void Shape::erase(int n) { SAMPLE(); state += n; }
        void Shape::pass(Shape *other, int n) { ++state; other->erase(n); }
        void draw_all(Shape *shape, int n) { shape->draw(n); shape->erase(n); shape->pass(shape, n); ++n; }
    """
    program = """
        void draw_all(Shape *, int);
        struct Mine : Shape {
            void draw(int) override; void erase(int) override; void pass(Shape *, int) override;
        };
        NOINLINE void Mine::draw(int n) { SAMPLE(); state -= n; }
        NOINLINE void Mine::erase(int n) { SAMPLE(); state -= n; }
        NOINLINE void Mine::pass(Shape *other, int n) { other->draw(n + state); }
        NOINLINE void by_slot(Shape *shape, Shape *other, int n) { shape->pass(other, n); ++other->state; }
        int main(int argc, char **) {
            Shape shape; Mine mine;
            draw_all(&shape, argc); draw_all(&mine, argc);
            by_slot(&shape, &mine, 1); by_slot(&mine, &shape, 2); by_slot(&mine, &mine, 3);
            return shape.state == 12345;
        }
    """
    parts = [Part("libshape.so", shapes + library), Part("program", shapes + program, ["libshape.so"])]
    stacks = build_modules(workshop, parts).check()
    assert len(stacks) == 9 and merged_functions(stacks) >= 2


def merged_functions(stacks: list[list[Seen]]) -> int:
    """How many functions were seen of which more than one candidate was known."""
    return len({seen.truth for stack in stacks for seen in stack if seen.truth and seen.verdict != "unmerged"})
