"""The objects of a link tell what its report tells, and the linkers that drop symbols need no report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.errors import IcfError
from icf.folds.report import parse_icf_report
from icf.linkinputs.inputs import open_inputs
from linkpass.linked import Linked
from linkpass.objects.functions import LinkObjects
from linkpass.objects.placed_functions import PlacedFunctions, find_reported, place_functions
from tests.e2e.workshop import GOLD, Toolchain, Workshop
from tests.linkpass.programs import BASE, CLANG_GOLD, CLANG_MOLD, FOUR, GCC_MOLD, MARKET, build
from tests.support.toolchain import run, tool

MOLD = (GCC_MOLD, CLANG_MOLD)
GOLD_TWO = (GOLD, CLANG_GOLD)
DROPPING = (*GOLD_TWO, *MOLD)  # linkers that drop symbols
Class = frozenset[tuple[str, int]]  # how many functions of each name


def place(image_path: Path, objects: Iterable[str | Path]) -> PlacedFunctions:
    with Image.open(image_path) as image:
        return place_functions(image, LinkObjects(open_inputs([str(path) for path in objects])))


def functions_at(image_path: Path, placed: PlacedFunctions) -> dict[int, Counter[str]]:
    """All functions by address: by symbol, and by what the objects tell."""
    found: dict[int, Counter[str]] = {}
    with Image.open(image_path) as image:
        for row in image.symbols.functions.tolist():
            found.setdefault(int(image.symbols.value[row]), Counter())[image.symbols.name(row)] += 1
    for vaddr, told in placed.functions.items():
        names = {(name, file) for name, file in told}
        found.setdefault(vaddr, Counter()).update(Counter(name for name, _ in names))
    return found


@pytest.mark.parametrize("toolchain", [*FOUR, *MOLD], ids=str)
@pytest.mark.parametrize(
    ("flags", "link_flags"),
    [
        ((), ()),
        (("-g0", "-O1", "-fPIC"), ("-Wl,--gc-sections",)),
        (("-g0", "-O3", "-fno-plt", "-fno-pie"), ("-no-pie",)),
    ],
    ids=str,
)
def test_every_function_of_the_report_is_found(
    toolchain: Toolchain, flags: tuple[str, ...], link_flags: tuple[str, ...], tmp_path: Path
) -> None:
    made = build(tmp_path, toolchain, flags=flags, link_flags=link_flags)
    placed = place(made.image, made.objects)
    assert placed.unknown == []
    found = functions_at(made.image, placed)
    classes = [folded for folded in parse_icf_report(made.report) if folded.has_function_name]
    for folded in classes:
        names = Counter(ref.function_name for ref in (folded.kept, *folded.removed))
        assert any(
            all(sum(here[name + end] for end in ("", ".cold")) >= count for name, count in names.items())
            for here in found.values()
        ), names
    assert len(classes) >= 8


def members(image_path: Path, objects: Sequence[str | Path]) -> set[Class]:
    with Image.open(image_path) as image:
        told = find_reported(image, None, LinkObjects(open_inputs([str(path) for path in objects])))
        assert told is not None
        folds = Linked.read(image, told).folds.values()
        return {frozenset(Counter(member.name for member in fold.members).items()) for fold in folds}


@pytest.mark.parametrize("toolchain", DROPPING, ids=str)
def test_namesakes_in_files_of_one_name_are_found_by_their_callers(toolchain: Toolchain, tmp_path: Path) -> None:
    # two files util.cpp with a static function helper each; nothing but the calls tells which is where
    for folder in ("red", "green", "blue"):
        (tmp_path / folder).mkdir()
    workshop = Workshop(tmp_path, toolchain)
    util = "{market}static NOINLINE void helper() {{ count({number}); ++total; }}\n"
    util += "void {name}() {{ helper(); total += {own}; }}\n"
    sources = {
        f"{name}/util.cpp": util.format(market=MARKET, number=number, name=name, own=own)
        for own, (name, number) in enumerate((("red", 1), ("green", 2), ("blue", 1)), 5)
    }
    sources["main.cpp"] = MARKET + "void red(); void green(); void blue(); int main() { red(); green(); blue(); }"
    objects = [
        path for name, text in {**sources, "base.cpp": BASE}.items() for path in _compile_at(workshop, name, text)
    ]
    image, _ = workshop.link("program", objects, "all")
    assert members(image, objects) == {frozenset({("_ZL6helperv", 2)})}


def _compile_at(workshop: Workshop, name: str, text: str) -> list[Path]:
    """Compile a file that may lie in a folder; the compiler is told the name alone."""
    inner = Workshop((workshop.folder / name).parent, workshop.toolchain)
    return inner.compile({Path(name).name: text}, "-g0")


@pytest.mark.parametrize("toolchain", DROPPING, ids=str)
def test_a_function_that_only_the_loader_calls_is_found_by_its_content(toolchain: Toolchain, tmp_path: Path) -> None:
    source = MARKET + "".join(
        f"__attribute__((constructor)) static void start_{name}() {{ count({number}); ++total; }}\n"
        for name, number in (("apples", 1), ("pears", 1), ("nuts", 2), ("figs", 3))
    )
    source += "int main() { return total; }\n"
    workshop = Workshop(tmp_path, toolchain)
    objects = workshop.compile({"main.cpp": source, "base.cpp": BASE}, "-g0")
    image, report = workshop.link("program", objects, "all", ["-Wl,--gc-sections"])
    assert [len(folded.removed) for folded in parse_icf_report(report)] == [1]
    found = members(image, objects)
    assert found == {frozenset({("_ZL12start_applesv", 1), ("_ZL11start_pearsv", 1)})}


@pytest.mark.parametrize("toolchain", DROPPING, ids=str)
def test_namesakes_with_a_symbol_each_are_in_no_other_body(toolchain: Toolchain, tmp_path: Path) -> None:
    # functions that only the loader calls; they differ in a variable, and nothing shows where it is
    workshop = Workshop(tmp_path, toolchain)
    util = "extern int total; struct Start {{ int value; Start() : value(total) {{}} }}; static Start start;\n"
    util += "int {name}() {{ return {number} + ++start.value; }}\n"
    names = ("red", "green")
    sources = {f"{name}/util.cpp": util.format(name=name, number=number) for number, name in enumerate(names)}
    sources["main.cpp"] = "int total; int red(), green(); int main() { return red() + green(); }\n"
    for name in names:
        (tmp_path / name).mkdir()
    objects = [path for name, text in sources.items() for path in _compile_at(workshop, name, text)]
    image, _ = workshop.link("program", objects, "all")
    with Image.open(image) as linked:
        rows = [row for row in linked.symbols.functions.tolist() if linked.symbols.name(row).startswith("_GLOBAL__")]
        assert len({int(linked.symbols.value[row]) for row in rows}) == len(rows) == 2
    assert members(image, objects) == set()


@pytest.mark.parametrize("toolchain", [CLANG_GOLD], ids=str)
def test_a_symbol_of_a_missing_object_is_not_that_of_a_namesake_that_was_folded(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    # two are folded and a third has the name, so the image has as many symbols of it as the two given objects define
    workshop = Workshop(tmp_path, toolchain)
    util = "extern int total;\n"
    util += "__attribute__((noinline)) static void add(int n) {{ while (n--) total = total * 3 + {by}; }}\n"
    util += "__attribute__((constructor)) static void start() {{ add(3); total += {step}; }}\n"
    sources = {
        f"{name}/util.cpp": util.format(by=by, step=step)
        for name, by, step in (("red", 7, 1), ("green", 7, 2), ("blue", 9, 3))
    }
    sources["main.cpp"] = "int total; int main() { return total; }\n"
    for name in sources:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    objects = [path for name, text in sources.items() for path in _compile_at(workshop, name, text)]
    image, _ = workshop.link("program", objects, "all")
    assert members(image, objects) == {frozenset({("_ZL3addi", 2)})}
    placed = place(image, [path for path in objects if path.parent.name != "blue"])
    assert placed.unknown == ["an object of util.cpp"]
    names = [[name for name, _ in functions] for functions in placed.functions.values()]
    assert [here for here in names if "_ZL3addi" in here] == [["_ZL3addi", "_ZL3addi"]]


@pytest.mark.parametrize("toolchain", DROPPING, ids=str)
def test_archives_may_have_members_that_are_not_linked(toolchain: Toolchain, tmp_path: Path) -> None:
    # unused.o stands first, and has another body for a template that others use as well
    template = "template <class T> NOINLINE int each(T n) { count(%s + int(n)); return total; }\n"
    use = "int use_{0}(int n) {{ return each((long){1}) + each((unsigned long){1}); }}\n"
    sources = {
        "unused.cpp": MARKET + template % "77" + use.format("unused", "n"),
        "used.cpp": MARKET + template % "1" + use.format("used", "n"),
        "main.cpp": MARKET
        + template % "1"
        + "int use_used(int); int main(int n, char **) { return use_used(n) + each((long)n); }",
    }
    workshop = Workshop(tmp_path, toolchain)
    objects = workshop.compile({**sources, "base.cpp": BASE}, "-g0")
    archive = tmp_path / "lib.a"
    run(tool("ar"), "rcs", archive, *objects[:2])
    image, report = workshop.link("program", [objects[2], objects[3], archive], "all")
    assert parse_icf_report(report)
    inputs = [archive, objects[2], objects[3]]
    assert members(image, inputs) == {frozenset({("_Z4eachIlEiT_", 1), ("_Z4eachImEiT_", 1)})}


@pytest.mark.parametrize("toolchain", DROPPING, ids=str)
def test_without_some_of_the_objects_nothing_is_claimed(toolchain: Toolchain, tmp_path: Path) -> None:
    made = build(tmp_path, toolchain, flags=("-g0",))
    some = LinkObjects(open_inputs([str(made.objects[0]), str(made.objects[2])]))
    with Image.open(made.image) as image:
        unknown = place_functions(image, some).unknown
        assert "_Z10from_otheri" in unknown
        report = parse_icf_report(made.report)
        assert find_reported(image, report, some) is report
        if toolchain in MOLD:
            more = len(unknown) - 1
            with pytest.raises(IcfError, match=rf"not found: {re.escape(unknown[0])} and {more} more\)"):
                find_reported(image, None, some)
        else:
            assert find_reported(image, None, some) is None


@pytest.mark.parametrize("toolchain", DROPPING, ids=str)
def test_objects_out_of_order_cost_no_function(toolchain: Toolchain, tmp_path: Path) -> None:
    # two objects have a template each way, and each calls a static function of its own in it
    text = """
        static NOINLINE void {name}(int n) {{ count(n); total += {number}; }}
        template <class T> NOINLINE T walk(T n) {{ {name}(int(n)); {more} return n; }}
        int use_{name}(int n) {{ return int(walk((long)n) + walk((unsigned long)n)); }}
    """
    sources = {
        "first.cpp": MARKET + text.format(name="first", number=3, more=""),
        "other.cpp": MARKET + text.format(name="other", number=3, more="count(4);"),
        "main.cpp": MARKET
        + "int use_first(int), use_other(int); int main(int n, char **) { return use_first(n) + use_other(n); }",
    }
    objects = Workshop(tmp_path, toolchain).compile({**sources, "base.cpp": BASE}, "-g0")
    image, report = Workshop(tmp_path, toolchain).link("program", objects, "all", ["-Wl,--gc-sections"])
    assert parse_icf_report(report)
    placed = place(image, objects)
    assert bool(placed.functions) == (toolchain in MOLD)
    right = functions_at(image, placed)
    shuffled = functions_at(image, place(image, [objects[1], objects[0], *objects[2:]]))
    assert all(not names - shuffled[vaddr] for vaddr, names in right.items())


@pytest.mark.parametrize("toolchain", MOLD, ids=str)
def test_a_table_in_an_object_without_functions_leads_to_its_functions(toolchain: Toolchain, tmp_path: Path) -> None:
    each = "template <class T> NOINLINE void each() { count(1); ++total; }\n"
    sources = {
        "table.cpp": MARKET + "template <class T> void each(); extern void (*const table[])();\n"
        "void (*const table[])() = {each<int>, each<long>};\n",
        "each.cpp": MARKET + each + "template void each<int>(); template void each<long>();\n",
        "main.cpp": MARKET + "extern void (*const table[])(); int main(int n, char **) { table[n](); return total; }",
    }
    workshop = Workshop(tmp_path, toolchain)
    objects = workshop.compile({**sources, "base.cpp": BASE}, "-g0")
    image, _ = workshop.link("program", objects, "all", ["-Wl,--gc-sections"])
    assert members(image, objects) == {frozenset({("_Z4eachIiEvv", 1), ("_Z4eachIlEvv", 1)})}
