"""A new file of which a thread has copied a part before the layout was known: the bytes are those of the layout."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.elf.types import SHF_ALLOC
from icf.errors import FormatError, IcfError
from linkpass.background import Background
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.rewrite.file import Replacement
from linkpass.rewrite.layout import Layout, Piece, plan_copies, plan_layout
from linkpass.rewrite.sections import finish_rewrite, rewrite
from tests.support.elf import Elf, Part, Sym, symbol_parts

TABLE = SectionEdit(".debug_icf", b"table", align=8)
PARTS = [
    Part(".text", flags=SHF_ALLOC, content=b"\xc3" * 16, vaddr=0x1000, align=16),
    Part(".debug_info", content=bytes(range(1, 200)) * 50, align=16),
    Part(".debug_abbrev", content=b"abbreviations"),
    Part(".debug_line", content=b"line" * 999, align=16),
    *symbol_parts([Sym("f", 2, 1, 1, 0x1000)], 5),
]
CHANGES: dict[str, tuple[list[SectionEdit], list[SectionGrowth], list[str]]] = {
    "nothing": ([], [], []),
    "what a pass adds": ([TABLE], [SectionGrowth(".debug_info", b"more"), SectionGrowth(".debug_abbrev", b"x")], []),
    "shorter debug information": ([TABLE], [SectionGrowth(".debug_info", b"", keep_bytes=77)], []),
    "a section between others": ([SectionEdit(".debug_line", b"other", align=16)], [], []),
    "a section gone": ([TABLE], [], [".debug_line"]),
}


def make(path: Path) -> Path:
    path.write_bytes(Elf(PARTS, [(1, 5, ".text")]).build())
    return path


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("planned", [(), (".debug_line",)], ids=["all", "without .debug_line"])
def test_the_bytes_are_those_of_the_layout(change: str, planned: tuple[str, ...], tmp_path: Path) -> None:
    edits, growths, removals = CHANGES[change]
    with Image.open(make(tmp_path / "a.out")) as image:
        rewrite(image, tmp_path / "at-once", edits, growths, removals)
        with Replacement(tmp_path / "ahead", image.path, image.fileno()) as new, Background() as background:
            new.copy_ahead(plan_copies(image, planned), background)
            finish_rewrite(image, new, edits, growths, removals)
    assert (tmp_path / "ahead").read_bytes() == (tmp_path / "at-once").read_bytes()


def test_what_no_pass_changes_is_copied_ahead_and_not_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: dict[bool, int] = {False: 0, True: 0}  # by whether the main thread copied
    copy = os.copy_file_range

    def counted(source: int, target: int, count: int, start: int, offset: int) -> int:
        copied[threading.current_thread() is threading.main_thread()] += count
        return copy(source, target, count, start, offset)

    monkeypatch.setattr(os, "copy_file_range", counted)
    edits, growths, removals = CHANGES["what a pass adds"]
    with Image.open(make(tmp_path / "a.out")) as image:
        with Replacement(tmp_path / "ahead", image.path, image.fileno()) as new, Background() as background:
            new.copy_ahead(plan_copies(image, removals), background)
            finish_rewrite(image, new, edits, growths, removals)
        sizes = {section.name: section.size_bytes for section in image.sections}
    assert copied[False] >= sizes[".text"] + sizes[".debug_info"] + sizes[".debug_line"]
    assert copied[True] <= sizes[".debug_abbrev"] + sizes[".symtab"]


def test_holes_of_the_source_stay_holes(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out")
    hole_bytes = 64 << 20
    with open(path, "r+b") as source:
        source.truncate(hole_bytes)
    with open(path, "rb") as source, Background() as background:
        with Replacement(tmp_path / "ahead", str(path), source.fileno()) as new:
            whole = (Piece(0, hole_bytes),)
            new.copy_ahead(whole, background)
            new.finish(Layout(whole, hole_bytes))
    assert (tmp_path / "ahead").stat().st_blocks * 512 < 1 << 20
    assert (tmp_path / "ahead").read_bytes() == path.read_bytes()


def test_an_error_of_the_thread_is_an_error_of_the_file(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out")
    with open(path, "rb") as source, Background() as background:
        with pytest.raises(FormatError, match=r"a\.out: file\+0x[0-9a-f]+: was truncated while being read"):
            with Replacement(tmp_path / "ahead", str(path), source.fileno()) as new:
                new.copy_ahead((Piece(0, 1 << 20),), background)
                new.finish(Layout((Piece(0, 1),), 1))
    assert os.listdir(tmp_path) == ["a.out"]


def test_a_file_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    """Neither does the thread: it ends with the range at which it is, or does not begin."""
    path, started, may_go_on = make(tmp_path / "a.out"), threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        assert may_go_on.wait(60)

    with Image.open(path) as image, Background() as background:
        with pytest.raises(IcfError, match="of a step"):
            with Replacement(tmp_path / "ahead", image.path, image.fileno()) as new:
                background.start(wait)
                new.copy_ahead(plan_copies(image, ()), background)
                assert started.wait(60)
                raise IcfError("of a step")
        may_go_on.set()
    assert os.listdir(tmp_path) == ["a.out"]


def test_a_plan_is_the_beginning_of_a_layout(tmp_path: Path) -> None:
    with Image.open(make(tmp_path / "a.out")) as image:
        plan, layout = plan_copies(image, ()), plan_layout(image, *CHANGES["what a pass adds"])
    assert plan == layout.pieces[: len(plan)]
