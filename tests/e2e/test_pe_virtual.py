"""Calls through vftables and other pointers in PE images: each frame against the program that was linked without ICF.

Both programs execute the same instructions, one after the other, at other addresses. So what the unfolded one executes
at a step says which function each frame of the folded one really is.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import icf
from tests.support.toolchain import lasting_folder, run, tool
from tests.support.windows import RUNTIME, compile_windows, link_windows
from tests.support.windows_steps import steps_of

# Bodies are shared by methods in one slot and in different ones, by a static function to which a pointer leads, and by
# methods of classes that have no name outside of their object.
SHAPES = """
#define KEEP __attribute__((noinline))
volatile int total;
KEEP void count(int value) { total = total + value; }
struct Shape { virtual int area(int); virtual int edges(int); virtual int corners(int); };
struct Solid { virtual int volume(int); virtual int faces(int); };
#define BODY { count(value * 3); return value + 1; }
int Shape::area(int value) { count(value); return value; }
int Shape::edges(int value) BODY
int Shape::corners(int value) { count(value); count(1); return 2; }
int Solid::volume(int value) BODY
int Solid::faces(int value) { count(value + 9); return 4; }
struct Circle : Shape { int area(int) override; };
struct Square : Shape { int area(int) override; int corners(int) override; };
struct Cube : Shape, Solid { int corners(int) override; int faces(int) override; };
int Circle::area(int value) { count(value + 5); count(value); return 3; }
int Square::area(int value) { count(value + 5); count(value); return 3; }
int Square::corners(int value) BODY
int Cube::corners(int value) { count(value + 5); count(value); return 3; }
int Cube::faces(int value) { count(value + 5); count(value); return 3; }
static KEEP int doubled(int value) { count(value * 2); return 5; }
static KEEP int twice(int value) { count(value * 2); return 5; }
static KEEP int pointed(Shape*, int value) BODY
namespace {
struct Hidden : Shape { int edges(int value) override { count(value - 4); return 8; } };
struct Secret : Shape { int edges(int value) override { count(value - 4); return 8; } };
}
int (*volatile action)(int);
int (*volatile other)(Shape*, int);
KEEP int area_of(Shape* shape) { return shape->area(7) + 1; }
KEEP int edges_of(Shape* shape) { return shape->edges(8); }
KEEP int corners_of(Shape* shape) { return shape->corners(9) + 2; }
KEEP int volume_of(Solid* solid) { return solid->volume(4) + 6; }
KEEP int faces_of(Solid* solid) { return solid->faces(3) + 7; }
KEEP int act(int value) { return action(value) + twice(value); }
Shape* volatile shapes[6];
extern "C" int mainCRTStartup() {
    Shape shape; Circle circle; Square square; Cube cube; Hidden hidden; Secret secret;
    shapes[0] = &shape; shapes[1] = &circle; shapes[2] = &square; shapes[3] = &cube;
    shapes[4] = &hidden; shapes[5] = &secret;
    int sum = 0;
    for (int at = 0; at < 6; at++) sum += area_of(shapes[at]) + edges_of(shapes[at]) + corners_of(shapes[at]);
    sum += volume_of(&cube) + faces_of(&cube);
    action = doubled;
    other = pointed;
    return sum + act(3) + other(shapes[2], 1);
}
"""
FLAGS = {"rtti": ("-O1",), "no-rtti": ("-O2", "-fno-rtti")}


@cache
def programs(flags: str) -> tuple[Path, Path]:
    """The program with folding, and its tables beside it; and without."""
    compiled = compile_windows(RUNTIME + SHAPES, *FLAGS[flags])
    folded = link_windows(lasting_folder(), compiled, name="shapes")
    icf("pass", "-q", folded, "--objects", compiled)
    return folded, link_windows(lasting_folder(), compiled, icf=False, name="unfolded")


def frames_of(image: Path, stacks: list[tuple[int, ...]]) -> list[list[dict[str, Any]]]:
    (image.parent / "stacks").write_text("".join(" ".join(map(hex, stack)) + "\n" for stack in stacks))
    text = icf("resolve", "-e", image, "--out", "json", image.parent / "stacks")
    return [json.loads(line)["frames"] for line in text.splitlines()]


@pytest.mark.parametrize("flags", FLAGS)
def test_every_frame_is_that_of_the_unfolded_program(flags: str) -> None:
    images = programs(flags)
    ours, theirs = ([tuple(frame.pc for frame in step.frames) for step in steps_of(image)] for image in images)
    assert [len(stack) for stack in ours] == [len(stack) for stack in theirs]
    pairs = list(dict.fromkeys(zip(ours, theirs, strict=True)))
    merged = named = 0
    left: dict[str, set[str]] = {}  # what is said of the frames of one function
    folded, truth = frames_of(images[0], [each for each, _ in pairs]), frames_of(images[1], [each for _, each in pairs])
    for stack, true_stack in zip(folded, truth, strict=True):
        for frame, true in zip(stack, true_stack, strict=True):
            assert true["verdict"] == "unmerged"
            allowed = frame["candidates"] or [frame["linkage_name"], frame["name"]]
            assert true["linkage_name"] in allowed, (frame, true)
            merged += frame["verdict"] != "unmerged"
            named += frame["verdict"] == "unique"
            left.setdefault(true["name"], set()).update(frame["candidate_names"] or [frame["name"]])
    print(f"{flags}: {named} of {merged} frames in merged functions have one name")
    assert merged > 100
    # their slots tell them apart
    assert left["Cube::corners(int)"] == {"Cube::corners(int)"} and left["Cube::faces(int)"] == {"Cube::faces(int)"}
    # so do not those of one slot, and a pointer may lead to `pointed`
    assert left["Circle::area(int)"] == left["Square::area(int)"] == {"Circle::area(int)", "Square::area(int)"}
    assert left["Shape::edges(int)"] == {"Shape::edges(int)", "pointed"}
    assert left["pointed"] == {"Shape::edges(int)", "Solid::volume(int)", "Square::corners(int)", "pointed"}


def flags_of(image: Path, name: str) -> set[str]:
    """What is known of the class of a function, and of the function."""
    for each in json.loads(icf("dump", "--folds", "--json", image))["classes"]:
        for member in each["members"]:
            if name in (member["name"], member["linkage_name"]):
                return {*each["flags"], *member["flags"]}
    raise AssertionError(name)


def test_equal_vftables_are_one_whose_slots_hold_any_of_their_functions() -> None:
    source = f"""{RUNTIME} volatile int total;
    struct Left {{ virtual int get(int); virtual int put(int); }};
    struct Right {{ virtual int get(int); virtual int put(int); }};
    int Left::get(int value) {{ return total + value; }} int Right::get(int value) {{ return total + value; }}
    int Left::put(int value) {{ return total - value; }} int Right::put(int value) {{ return total - value; }}
    Left* volatile left; Right* volatile right;
    extern "C" int mainCRTStartup() {{
        Left one; Right two;
        left = &one; right = &two;
        return left->get(1) + right->put(2);
    }}
    """
    tables = {}
    for rtti in ("-frtti", "-fno-rtti"):
        compiled = compile_windows(source, "-O1", rtti)
        image = link_windows(lasting_folder(), compiled)
        icf("pass", "-q", image, "--objects", compiled)
        found = json.loads(icf("dump", "--vtables", "--json", image))["vtables"]
        tables[rtti] = [(each["name"], [slot["name"] for slot in each["slots"]]) for each in found]
    names = ["Left::get(int)", "Left::put(int)"], ["Right::get(int)", "Right::put(int)"]
    assert tables["-frtti"] == [("const Left::`vftable'", names[0]), ("const Right::`vftable'", names[1])]
    assert tables["-fno-rtti"] == [("const Left::`vftable'", [None, None])]


def test_marks_are_known_only_with_every_object_of_the_link(tmp_path: Path) -> None:
    compiled = compile_windows(RUNTIME + SHAPES, "-O1")
    more = compile_windows(
        "int (*volatile more)(int); int unrelated(int value) { return value - 77; }", "-O1", name="more"
    )
    image = link_windows(tmp_path, compiled, more)
    for objects in ([compiled, more], [compiled]):
        summary = json.loads(icf("pass", image, "--json", "--objects", *objects))
        is_whole = len(objects) == 2
        assert summary["missing"] == ([] if is_whole else [str(more)])
        assert ("address-taken-known" in flags_of(image, "Circle::area(int)")) == is_whole
        assert "calls-complete" in flags_of(image, "pointed")
    assert f"missing     {more}: virtual calls stay open" in icf("pass", image, "--objects", compiled)


@pytest.mark.parametrize(("use", "is_known"), [("", False), ("first(1)", True)], ids=["nothing", "a call"])
def test_the_marks_of_a_body_to_which_nothing_leads_are_not_known(use: str, is_known: bool, tmp_path: Path) -> None:
    merged = "".join(f"KEEP int {name}(int by) {{ return total * by; }}" for name in ("first", "second"))
    source = f"""{RUNTIME}
        #define KEEP __attribute__((noinline))
        volatile int total; {merged} KEEP int third(int by) {{ return total + by; }}
        int (*volatile other)(int) = third; extern "C" int mainCRTStartup() {{ {use}; return other(2); }}"""
    objects = compile_windows(source, "-O1", name="referred")
    image = link_windows(tmp_path, objects, "/opt:noref")
    icf("pass", "-q", image, "--objects", objects)
    assert ("address-taken-known" in flags_of(image, "first(int)")) is is_known


def test_an_object_with_other_vftables_than_the_image_marks_nothing(tmp_path: Path) -> None:
    first, second = "virtual int edges(int);", "virtual int corners(int);"
    image = link_windows(tmp_path, compile_windows(RUNTIME + SHAPES, "-O1"))
    other = (RUNTIME + SHAPES).replace(f"{first} {second}", f"{second} {first}")
    icf("pass", "-q", image, "--objects", compile_windows(other, "-O1"))
    assert "address-taken-known" not in flags_of(image, "Circle::area(int)")


MERGED = ("plain", "exported", "imported", "held")


@pytest.mark.parametrize(
    ("export", "taken"),
    [
        ("/export:exported", {"exported", "imported", "held"}),
        ("/export:renamed=exported", set(MERGED)),  # it says where, not which
        ("/export:exported,@7,NONAME", set(MERGED)),
    ],
)
def test_what_other_images_can_call_is_marked(export: str, taken: set[str], tmp_path: Path) -> None:
    merged = "".join(
        f'extern "C" int {name}(int value) {{ count(value); count(3); return value + 1; }}' for name in MERGED
    )
    parts = f"{RUNTIME} volatile int total; void count(int by) {{ total = by; }} {merged}"
    user = """extern "C" { int plain(int); __declspec(dllimport) int imported(int);
    int held(int); int (*holder)(int) = held;
    int mainCRTStartup() { return plain(1) + imported(4) + holder(5); } }"""
    unused = compile_windows('extern "C" int plain(int); int (*unused)(int) = plain;', "-O1", name="unused")
    run(tool("llvm-lib"), f"/out:{tmp_path / 'unused.lib'}", unused)
    objects = (
        *(compile_windows(text, "-O1", name=name) for name, text in (("parts", parts), ("user", user))),
        tmp_path / "unused.lib",
    )
    image = link_windows(tmp_path, *objects, export, "/include:imported", "/ignore:4217")
    icf("pass", "-q", image, "--objects", *objects)
    flags = {name: flags_of(image, name) for name in MERGED}
    assert {name for name in MERGED if "address-taken" in flags[name]} == taken
    assert all("address-taken-known" in each for each in flags.values())


@pytest.mark.parametrize("sections", ["-ffunction-sections", "-fno-function-sections"])
def test_windows_calls_the_handlers_in_a_function(sections: str, tmp_path: Path) -> None:
    """A destructor that an exception runs is a part of the function's code, and has a frame of its own."""
    names = {"first": "Guard guard;", "second": "Guard guard;", "third": "", "fourth": ""}
    functions = "".join(
        f"inline __attribute__((noinline)) int {name}(int by) {{ {guard} action(by); return by + 4; }}\n"
        for name, guard in names.items()
    )
    source = f"""{RUNTIME} volatile int total; void count(int by) {{ total = by; }}
    extern "C" {{ int __CxxFrameHandler3(...) {{ return 1; }} void __std_terminate() {{}} }}
    void leave(int value) {{ total = value; }} void (*volatile action)(int) = leave;
    struct Guard {{ ~Guard(); }}; Guard::~Guard() {{ count(3); }}
    {functions}
    extern "C" int mainCRTStartup() {{ return {" + ".join(f"{name}(total)" for name in names)}; }}
    """
    compiled = compile_windows(source, "-O1", "-fcxx-exceptions", "-fexceptions", sections)
    image = link_windows(tmp_path, compiled)
    icf("pass", "-q", image, "--objects", compiled)
    for name, guard in names.items():
        flags = flags_of(image, f"{name}(int)")
        assert "address-taken-known" in flags and ("address-taken" in flags) == bool(guard)


def test_of_moved_objects_with_one_name_a_function_of_either_counts_as_taken(tmp_path: Path) -> None:
    own = "static int same(int by) {{ return total * by; }} int (*volatile {0})(int) = same;"
    own += "int {0}_of() {{ return {0}(2); }}"
    main = f"{RUNTIME} volatile int total; int one_of(); int two_of();"
    main += "static int third(int by) { return total * by; } int (*volatile held)(int) = third;"
    main += 'extern "C" int mainCRTStartup() { return one_of() + two_of() + held(3); }'
    parts = [
        compile_windows("extern volatile int total;" + own.format(name), "-O1", name="part") for name in ("one", "two")
    ]
    linked, moved = ([tmp_path / place / number / "part.obj" for number in "12"] for place in ("linked", "moved"))
    for part, path in zip(parts, linked, strict=True):
        path.parent.mkdir(parents=True)
        shutil.copy(part, path)
    objects = compile_windows(main, "-O1", name="main")
    image = link_windows(tmp_path, objects, *linked)
    (tmp_path / "linked").rename(tmp_path / "moved")
    icf("pass", "-q", image, "--objects", objects, *moved)
    classes = json.loads(icf("dump", "--folds", "--json", image))["classes"]
    (members,) = [each["members"] for each in classes if len(each["members"]) == 3]
    assert [each["name"] for each in members] == ["same", "same", "third"]
    assert all("address-taken" in each["flags"] for each in members)
