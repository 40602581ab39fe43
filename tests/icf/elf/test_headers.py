"""Headers: what is refused, with which words, and the escapes for large counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.elf.headers import parse_headers
from icf.elf.image import Image
from icf.elf.types import PT_LOAD, SHF_ALLOC, Machine
from icf.errors import FormatError, IcfError, UnsupportedError
from tests.support.elf import Elf, Part

PARTS = [
    Part(".text", flags=SHF_ALLOC, content=b"\xc3" * 16, vaddr=0x1000, align=16),
    Part(".debug_info", content=b"info"),
]
ELF = Elf(PARTS, [(PT_LOAD, 5, ".text")]).build()


def patched(offset: int, content: bytes) -> memoryview:
    return memoryview(ELF[:offset] + content + ELF[offset + len(content) :])


def test_a_small_file() -> None:
    headers = parse_headers(memoryview(ELF), "a.out")
    assert headers.machine is Machine.X86_64
    assert [section.name for section in headers.sections] == ["", ".text", ".debug_info", ".shstrtab"]
    assert headers.sections[1].vaddr == 0x1000 and headers.sections[1].is_alloc
    assert headers.segments[0].filesz == 16


@pytest.mark.parametrize("size_bytes", range(len(ELF)))
def test_every_truncation_is_refused(size_bytes: int) -> None:
    with pytest.raises(FormatError, match=r"a\.out: .*\+0x[0-9a-f]+: .*(needs|starts with|do not fit|lies outside)"):
        parse_headers(memoryview(ELF[:size_bytes]), "a.out")


@pytest.mark.parametrize(
    ("offset", "content", "message"),
    [
        (0, b"\x7fELG", "not an ELF file: starts with 7f454c47"),
        (4, b"\3", "ELF class is 3, must be 1 or 2"),
        (5, b"\0", "ELF byte order is 0, must be 1 or 2"),
        (6, b"\2", "ELF version is 2, must be 1"),
        (52, b"\x41", "e_ehsize is 65, must be 64"),
        (54, b"\x39", "e_phentsize is 57, must be 56"),
        (58, b"\x41", "e_shentsize is 65, must be 64"),
        (60, b"\xff\xfe", "65279 entries of 64 bytes do not fit the file"),
        (56, b"\xff\xfe", "65279 entries of 56 bytes do not fit the file"),
        (40, b"\xff" * 8, "1 entries of 64 bytes do not fit the file"),
        (62, b"\x09", "e_shstrndx is 9, must be below the section count 4"),
    ],
)
def test_broken_fields(offset: int, content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_headers(patched(offset, content), "a.out")


@pytest.mark.parametrize(
    ("offset", "content", "message"),
    [
        (4, b"\1", "32-bit ELF is not handled"),
        (5, b"\2", "big-endian ELF is not handled"),
        (18, b"\x28", "machine 40 is not handled"),
        (16, b"\1", "a relocatable object, needs a linked executable"),
        (16, b"\4", "ELF type 4 is not handled"),
    ],
)
def test_other_kinds_of_elf_are_named(offset: int, content: bytes, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        parse_headers(patched(offset, content), "a.out")


def test_a_relocatable_object_on_request() -> None:
    assert parse_headers(patched(16, b"\1"), "a.o", allow_rel=True).elf_type == 1


def test_counts_escaped_to_section_zero() -> None:
    headers = parse_headers(memoryview(Elf(PARTS, escaped_counts=True).build()), "a.out")
    assert [section.name for section in headers.sections] == ["", ".text", ".debug_info", ".shstrtab"]


def test_more_sections_than_sixteen_bits_count() -> None:
    parts = [Part(f".s{index}") for index in range(0xFF10)]
    headers = parse_headers(memoryview(Elf(parts).build()), "a.out")
    assert len(headers.sections) == 0xFF10 + 2
    assert headers.sections[0xFF05].name == ".s65284"


def test_no_section_headers() -> None:
    headers = parse_headers(patched(40, bytes(8)), "a.out")
    assert headers.sections == () and len(headers.segments) == 1


def test_files_that_cannot_be_mapped(tmp_path: Path) -> None:
    with pytest.raises(IcfError, match="missing: No such file"):
        Image.open(tmp_path / "missing")
    with pytest.raises(IcfError, match="is not a regular file"):
        Image.open(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(FormatError, match="the file is empty"):
        Image.open(tmp_path / "empty")
