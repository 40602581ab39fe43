"""Opening an image of any format."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from icf.elf.image import Image as ElfImage
from icf.errors import FormatError, IcfError
from icf.image import Image, open_image
from tests.support.elf import Elf
from tests.support.toolchain import LINKERS, compile_object, link


def common(image: Image) -> tuple[object, ...]:
    """All that `Image` promises; type checkers compare the class for ELF with it here."""
    symbols = image.symbols
    rows = symbols.functions.tolist()
    functions = [(int(symbols.value[row]), int(symbols.size_bytes[row])) for row in rows]
    names = symbols.names(rows)
    assert names == [symbols.name(row) for row in rows] and len(symbols) >= len(rows)
    identity = image.path, image.machine, image.linker.name, image.build_id, image.code_digest
    code = [bytes(image.read(vaddr, size)) for vaddr, size in functions], image.span, image.backed
    imports = image.got_imports, image.plt_slots, image.plt_stubs
    return identity, functions, names, code, imports, [image.may_start_function(vaddr) for vaddr, _ in functions]


@pytest.mark.parametrize("linker", LINKERS)
def test_an_elf_image_is_opened_by_its_first_bytes(linker: str, tmp_path: Path) -> None:
    source = 'extern "C" int puts(const char *); int main() { return puts("hello"); }'
    path = link(tmp_path / "program", linker, compile_object(source, "-O1"), "-Wl,--build-id")
    image = open_image(str(path))
    found = common(image)
    image.close()
    with ElfImage.open(path) as elf:
        assert found == common(elf)
        assert "puts" in elf.plt_stubs.values() or "puts" in elf.got_imports.values()


@pytest.mark.parametrize(
    ("contents", "problem"), [(b"", "the file is empty"), (bytes(64), "ELF"), (b"MZ" + bytes(62), "is not a PE image")]
)
def test_another_file_is_refused(contents: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(contents)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FormatError, match=problem):
        open_image(str(path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IcfError, match="is not a regular file"):
        open_image(str(tmp_path / "pipe"))


def test_a_file_of_sections_alone_is_an_image(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(Elf().build())
    image = open_image(str(path))
    assert common(image)[1:3] == ([], [])
    image.close()
