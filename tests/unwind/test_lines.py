"""Name and line agree: a folded member has the line of its own function, or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from icf.dwarf.dies import resolve
from icf.dwarf.scan import scan_functions
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.model import ClassFlag, DieOffset, FoldClass, Member, Vaddr, Verdict
from tests.support.link import compile_object, link, tool
from unwind.answer import FrameAnswer
from unwind.lines import Lines
from unwind.program import Program

SOURCE = """int table[4];
__attribute__((noinline)) int left(int at) {
  return table[at & 3] * 7;
}

__attribute__((noinline)) int right(int at) {
  return table[at & 3] * 7;
}
int main(int argc, char **) {
  return left(argc) +
         right(argc);
}
"""
LINES = {"_Z4lefti": (2, 3), "_Z5righti": (6, 7)}
Answer = Callable[[str, Verdict], FrameAnswer]


@pytest.fixture(scope="module", params=["gold", "lld"])
def image_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tool("ld.gold" if request.param == "gold" else "ld.lld-19")
    path = tmp_path_factory.mktemp("lines") / "image"
    # with frame pointers the compiler gives each function a row for its head, which tells sequences apart
    flags = ("-g", "-O1", "-fno-omit-frame-pointer", "-ffunction-sections")
    keep = ["-Wl,--emit-relocs"] if request.param == "lld" else []
    return link(path, request.param, compile_object(SOURCE, *flags), "-Wl,--icf=all", *keep)


def answers(image: Image) -> dict[str, FrameAnswer]:
    """An answer at the start of each function, with the body and DIE that the tables would give it."""
    debug = DebugInfo.open(image)
    functions = scan_functions(debug).functions
    identity = resolve(debug, functions.die)
    found = {}
    for row, reference in enumerate(
        np.where(identity.linkage_name != 0, identity.linkage_name, identity.name).tolist()
    ):
        name = debug.string(reference).decode()
        low, high = int(functions.low[row]), int(functions.high[row])
        member = Member(name, DieOffset(int(functions.die[row])))
        body = Program([FoldClass(Vaddr(low), high - low, (member,), ClassFlag.MEMBERS_COMPLETE)]).body_at(low)
        verdict = Verdict.UNIQUE if name in LINES else Verdict.UNMERGED
        found[name] = FrameAnswer(low, verdict, name, vaddr=low, body=body, member_idx=0)
    return found


def test_a_member_has_its_own_line_or_none(image_path: Path) -> None:
    with Image.open(image_path) as image:
        lines = Lines(image)
        found = answers(image)
        assert found["_Z4lefti"].vaddr == found["_Z5righti"].vaddr
        places = {name: lines.place(found[name]) for name in LINES}
        for name, place in places.items():
            assert place is None or (Path(place[0]).name == "program.cpp" and place[1] in LINES[name])
        assert any(places.values())


def test_an_unmerged_function_has_the_line_of_its_unit(image_path: Path) -> None:
    with Image.open(image_path) as image:
        place = Lines(image).place(answers(image)["main"])
        assert place is not None and Path(place[0]).name == "program.cpp" and place[1] in (9, 10)


def test_frames_without_one_name_have_no_line(image_path: Path) -> None:
    with Image.open(image_path) as image:
        found = answers(image)["_Z4lefti"]
        lines = Lines(image)
        assert lines.place(FrameAnswer(found.address, Verdict.AMBIGUOUS, vaddr=found.vaddr, body=found.body)) is None
        assert lines.place(FrameAnswer(None, Verdict.UNKNOWN)) is None


def test_an_image_without_debug_information_has_no_lines(tmp_path: Path) -> None:
    path = link(tmp_path / "image", "bfd", compile_object(SOURCE, "-O1"))
    with Image.open(path) as image:
        program = Program.from_image(image)
        body = program.body_at(image.entry)
        assert body is not None
        answer = FrameAnswer(image.entry, Verdict.UNMERGED, "_start", vaddr=image.entry, body=body, member_idx=0)
        assert Lines(image).place(answer) is None
