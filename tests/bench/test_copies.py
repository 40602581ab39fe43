"""Programs of any size: that copies take no compiler, and fold."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.bench import copies
from tests.support import toolchain


def tiny_source(part: str) -> str:
    """Return a source with one function that folds with those of all copies."""
    body = "extern volatile unsigned long sink; namespace N00000 { namespace PART { void run() { sink = sink + 1; } } }"
    return body.replace("PART", part)


@pytest.mark.parametrize(("compiler", "linker"), [("g++", "gold"), ("clang++", "lld")])
def test_functions_of_all_copies_share_one_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, linker: str
) -> None:
    for name in (compiler, f"ld.{linker}"):
        toolchain.tool(name)
    monkeypatch.setattr(copies, "source", tiny_source)
    program = copies.make(0.001, tmp_path, compiler, linker)
    toolchain.run(program)
    assert list(tmp_path.iterdir()) == [program]  # the objects are gone
    with Image.open(program) as image:
        names = [image.symbols.name_at(int(at)) for at in image.symbols.name_offset]
        places = {image.symbols.value[i] for i, name in enumerate(names) if name.endswith("3runEv")}
        section = image.section(".debug_info")
        assert section is not None and section.size_bytes >= 1000
    assert sum(name.endswith("3runEv") for name in names) >= 4
    assert len(places) == 1


def test_a_program_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "clang++-lld-emit-relocs-7").write_text("kept")
    assert copies.make(7, tmp_path, "clang++", "lld", "--emit-relocs").read_text() == "kept"
