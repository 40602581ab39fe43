"""What pointers point to and what is in classes, in programs of both compilers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from icf.dwarf import _children, children, layouts
from icf.dwarf import columns as col
from icf.dwarf.children import ChildReader
from icf.dwarf.constants import DW_AT_linkage_name, DW_AT_name
from icf.dwarf.layouts import DieRows, Question, method_of, object_at, pointee, pointer_at
from icf.dwarf.opening import open_debug
from icf.dwarf.prototypes import ELSEWHERE, IN_MEMORY, NO_RESULT, read_prototypes
from icf.dwarf.scan import scan_functions
from icf.dwarf.trees import Trees
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.vtables.parameters import read_signature
from tests.support.builds import uncompiled
from tests.support.toolchain import run, tool

SOURCE = """
#include <memory>
namespace shop {
struct Visitor { virtual ~Visitor(); virtual void visit(int n); };
struct Other { long words[4]; virtual void other(); };
struct Big { long words[6]; };
struct Empty {};
union Either { Visitor *visitor; Other *other; };
struct Each : Visitor, Empty, Other {           // 0, 8 and on: Other
    Visitor *then; std::unique_ptr<Other> owned; Either either; Other inside; int n; static Visitor *shared;
};
}
using namespace shop;
__attribute__((noinline)) int use(const Each &each, Each *pointer, int number) { return each.n + pointer->n + number; }
__attribute__((noinline)) Big big(Each *) { return {}; }
int main() { Each each; return use(each, &each, 1) + big(&each).words[0]; }
Visitor::~Visitor() {} void Visitor::visit(int) {} void Other::other() {} Visitor *Each::shared;
"""


@pytest.fixture(params=["g++", "clang++"])
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "a.cpp").write_text(SOURCE)
    run(tool(request.param), "-g", "-O1", tmp_path / "a.cpp", "-o", tmp_path / "a")
    return tmp_path / "a"


def function_named(debug: DebugInfo, name: str) -> int:
    dies = scan_functions(debug, 1).functions.die
    trees = Trees(debug)
    return next(int(die) for die in dies if trees.text(trees.die(int(die)), DW_AT_name) == name)


def test_fields_and_results(image: Path) -> None:
    with Image.open(image) as opened:
        debug = open_debug(opened)
        trees = Trees(debug)

        def name_of(row: tuple[int, ...]) -> str:
            return trees.text(trees.die(row[col.L_DIE]), DW_AT_name)

        def describe(function: int) -> Question[dict[str, str]]:
            parameters = [row for row in (yield function).children if row[col.L_TAG] == col.TAG_FORMAL_PARAMETER]
            found = {}
            for row in parameters:
                each = yield from pointee(row[col.L_TYPE])
                found[name_of(row)] = name_of(each.own) if each.is_known else ""
            each = yield from pointee(parameters[0][col.L_TYPE])
            at = {name_of(row): row[col.L_OFFSET] - 1 for row in each.children if row[col.L_OFFSET]}
            for member in ("then", "owned", "either", "n"):
                target = yield from pointee((yield from pointer_at(each, at[member])))
                method = method_of(target)
                signature = read_signature(trees.text(trees.die(method), DW_AT_linkage_name)) if method else None
                found[member] = "" if signature is None else signature.scope
            for member, offset in (("second base", 8), ("inside", at["inside"]), ("in it", at["inside"] + 8)):
                place = yield from object_at(each, offset)
                found[member] = name_of(place.own) if place.is_known else ""
            return found

        rows = DieRows(ChildReader(debug))
        (found,) = rows.answer([describe(function_named(debug, "use"))])
        assert found is not None
        assert (found["each"], found["pointer"], found["number"]) == ("Each", "Each", "")
        assert found["then"] == "shop::Visitor"
        assert found["owned"] == "shop::Other"
        assert (found["either"], found["n"]) == ("", "")
        assert (found["second base"], found["inside"], found["in it"]) == ("Other", "Other", "")

        names = {function_named(debug, name): name for name in ("use", "big", "main")}
        prototypes = read_prototypes(rows, np.array([*sorted(names), debug.die_limit], np.uint64))
        assert prototypes.is_known.tolist() == [True, True, True, False]
        results = dict(zip((names[die] for die in sorted(names)), prototypes.result.tolist(), strict=False))
        assert results == {"use": ELSEWHERE, "big": IN_MEMORY, "main": ELSEWHERE}
        assert prototypes.result[3] == NO_RESULT and not prototypes.is_method.any()
        parameters = {name: prototypes.types(row) for row, name in enumerate(names[die] for die in sorted(names))}
        assert list(map(len, (parameters["use"], parameters["big"], parameters["main"]))) == [3, 1, 0]
        assert parameters["use"][1] == parameters["big"][0]


def test_both_builds_of_the_kernel_agree(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Image.open(image) as opened:
        debug = open_debug(opened)
        offsets = np.unique(scan_functions(debug, 1).functions.die)
        types = ChildReader(debug).read(offsets)[:, col.L_TYPE]
        offsets = np.unique(np.concatenate([offsets, types[types > 0], np.array([7], np.uint64)]))
        compiled = ChildReader(debug).read(offsets)
        monkeypatch.setattr(children, "read_children", uncompiled(_children).read_children)
        assert np.array_equal(compiled, ChildReader(debug).read(offsets))


def test_answers_are_those_of_questions_that_are_asked_one_by_one(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def described(offset: int) -> Question[tuple[int, list[int]]]:
        rows = yield from pointee((yield offset).own[col.L_TYPE])
        return rows.own[col.L_DIE], [child[col.L_DIE] for child in rows.children]

    with Image.open(image) as opened:
        debug = open_debug(opened)
        offsets = np.unique(scan_functions(debug, 1).functions.die)
        rows = ChildReader(debug).read(offsets)
        asked = rows[rows[:, col.L_TAG] == col.TAG_FORMAL_PARAMETER, col.L_DIE].tolist()
        together = DieRows(ChildReader(debug)).answer(map(described, asked))
        monkeypatch.setattr(layouts, "_QUESTIONS", 1)
        monkeypatch.setattr(layouts, "_KEPT_ROWS", 0)
        monkeypatch.setattr(children, "_KEPT_BYTES", 0)
        assert DieRows(ChildReader(debug)).answer(map(described, asked)) == together
        assert len(set(map(str, together))) > 2
