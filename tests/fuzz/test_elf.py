"""10,000 mutated ELF files: every reader of `icf.elf` gives a result, FormatError or UnsupportedError, never more.

Headers are hit more often than contents, since that is where one byte goes a long way.
"""

from __future__ import annotations

import os
import random
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from struct import pack

import pytest
import zstandard

from icf.elf.image import Image
from icf.elf.types import (
    PT_DYNAMIC,
    PT_LOAD,
    PT_NOTE,
    SHF_ALLOC,
    SHF_COMPRESSED,
    SHF_EXECINSTR,
    SHT_DYNAMIC,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_RELA,
    SHT_SYMTAB_SHNDX,
    Machine,
)
from icf.errors import FormatError, IcfError, UnsupportedError
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.rewrite.layout import plan_layout
from tests.fuzz.limits import many, peak_memory, reset_peak_memory
from tests.support.elf import Elf, Part, Sym, symbol_parts
from tests.support.elf_mutations import mutations

MUTATION_COUNT = many(10_000)
INFO = b"debug info " * 20
SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM = 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_VERSION_DEFINED = pack("<4H3I2I", 1, 1, 1, 1, 0, 20, 28, 1, 0) + pack("<4H3I2I", 1, 0, 2, 1, 0, 20, 0, 8, 0)
_VERSION_NEEDED = pack("<2H3I", 1, 2, 1, 16, 0) + pack("<I2H2I", 0, 0, 3, 1, 16) + pack("<I2H2I", 0, 0, 4, 8, 0)


def seed(machine: Machine) -> bytes:
    """Every kind of section that is read; a few hundred bytes of contents."""
    jump_slot, glob_dat, irelative = (7, 6, 37) if machine is Machine.X86_64 else (1026, 1025, 1032)
    if machine is Machine.X86_64:
        plt = bytes.fromhex("f30f1efa ff25 f60f0000 9090") + bytes.fromhex("ff25 ec0f0000")
    else:
        plt = pack("<6I", 0xD503245F, 0xB0000010, 0xF9400211, 0x91000210, 0xD61F0220, 0xD503201F)
    symbols = [
        Sym("file.c", 4, 0, 0xFFF1),
        Sym("local", 2, 0, 1, 0x1000, 8),
        Sym("ifunc", 10, 1, 1, 0x1008, 8),
        Sym("imported", 2, 1, 0),
        Sym("far", 2, 1, 0xFFFF, 0x1010),
    ]
    rela = pack("<QIIq", 0x2000, jump_slot, 4, 0) + pack("<QIIq", 0x2008, glob_dat, 4, 0)
    rela += pack("<QIIq", 0x2010, irelative, 0, 0x1008)
    note = pack("<III4s8s", 4, 8, 3, b"GNU\0", b"buildid!")
    dynamic = pack("<6Q", 0x6FFFFFFB, 0x08000000, 21, 0, 0, 0)
    parts = [
        Part(".plt", flags=SHF_ALLOC | SHF_EXECINSTR, content=plt, vaddr=0x1000, align=16),
        Part(".rela.plt", SHT_RELA, SHF_ALLOC, rela, link=6, align=8, entsize=24),
        Part(".note.gnu.build-id", SHT_NOTE, SHF_ALLOC, note, vaddr=0x3000, align=4),
        Part(".dynamic", SHT_DYNAMIC, SHF_ALLOC, dynamic, vaddr=0x4000, align=8),
        Part(".bss", SHT_NOBITS, SHF_ALLOC, vaddr=0x5000, size_bytes=64),
        *symbol_parts(symbols, 6),
        Part(".symtab_shndx", SHT_SYMTAB_SHNDX, 0, pack("<6I", 0, 0, 0, 0, 0, 1), link=6, entsize=4),
        Part(".comment", content=b"Linker: LLD 19\0"),
        Part(".debug_info", flags=SHF_COMPRESSED, content=pack("<IIQQ", 1, 0, len(INFO), 1) + zlib.compress(INFO)),
        Part(".debug_line", flags=SHF_COMPRESSED, content=pack("<IIQQ", 2, 0, len(INFO), 1) + zstandard.compress(INFO)),
        Part(".zdebug_str", content=b"ZLIB" + len(INFO).to_bytes(8, "big") + zlib.compress(INFO)),
        Part(".rela.text", SHT_RELA, 0, rela, link=6, info=1, entsize=24),
        Part(".gnu.version", SHT_GNU_VERSYM, 0, pack("<6H", 0, 0, 0, 0x8002, 3, 1), link=6, entsize=2),
        Part(".gnu.version_d", SHT_GNU_VERDEF, 0, _VERSION_DEFINED, link=7, info=2),
        Part(".gnu.version_r", SHT_GNU_VERNEED, 0, _VERSION_NEEDED, link=7, info=1),
    ]
    segments = [(PT_LOAD, 5, ".plt"), (PT_NOTE, 4, ".note.gnu.build-id"), (PT_LOAD, 4, ".dynamic")]
    return Elf(parts, [*segments, (PT_DYNAMIC, 4, ".dynamic")], machine).build()


def read_all(image: Image) -> None:
    """Ask an image everything, each question on its own."""
    questions: list[Callable[[], object]] = [
        lambda: image.build_id,
        lambda: image.linker,
        lambda: image.symbols.functions,
        lambda: [(image.symbols.name(row), image.symbols.file_name(row)) for row in range(image.symbols.count)],
        lambda: image.dynamic_symbols.shndx,
        lambda: image.plt_stubs,
        lambda: image.slot_versions,
        lambda: [bytes(image.read(vaddr, 1)) for vaddr in (0, 0x4010, 1 << 63, (1 << 64) - 1)],
        lambda: bytes(image.read(0x1000, 1 << 40)),
        lambda: image.private_copy(".debug_info"),
        lambda: image.private_copy(".symtab"),
    ]
    for name in (".debug_info", ".debug_line", ".debug_str", ".symtab", ".bss", ".comment"):
        questions.append(partial(image.contents, name))
    for name in (".rela.plt", ".rela.text"):
        questions.append(partial(_relocation_names, image, name))
    for question in questions:
        try:
            question()
        except (FormatError, UnsupportedError):
            pass


def _relocation_names(image: Image, name: str) -> list[str]:
    relocations = image.relocations(name)
    return relocations.symbols.names(relocations.symbol.tolist()) if relocations else []


@pytest.mark.parametrize("machine", Machine)
def test_every_reader_survives_mutations(machine: Machine, tmp_path: Path) -> None:
    content, path = seed(machine), tmp_path / "a.out"
    path.write_bytes(content)
    with Image.open(path) as image:
        assert image.plt_stubs and image.slot_versions == {0x2000: "file.c", 0x2008: "file.c"}
        assert image.symbols.functions.size and bytes(image.contents(".debug_line")) == INFO
        assert image.build_id == b"buildid!"
    rng = random.Random(20_000 + machine)
    fd = os.memfd_create("mutation")
    path = Path(f"/proc/self/fd/{fd}")
    opened = slowest_ns = 0
    for index, mutation in enumerate(mutations(content, MUTATION_COUNT // 2, rng)):
        if index == 100:  # everything lazy is imported
            start_bytes = reset_peak_memory()
        os.ftruncate(fd, 0)
        os.pwrite(fd, mutation, 0)
        start_ns = time.thread_time_ns()
        try:
            with Image.open(path) as image:
                opened += 1
                read_all(image)
        except (FormatError, UnsupportedError):
            pass
        slowest_ns = max(slowest_ns, time.thread_time_ns() - start_ns)
    os.close(fd)
    assert opened > MUTATION_COUNT // 8  # else nothing but the file header was tried
    assert slowest_ns < 1_000_000_000
    assert peak_memory() - start_bytes < 64 << 20


def test_a_rewrite_is_planned_or_refused() -> None:
    """Whatever the headers say, the planned file is not larger than the input and the changes explain."""
    content = seed(Machine.X86_64)
    planned = 0
    fd = os.memfd_create("mutation")
    path = Path(f"/proc/self/fd/{fd}")
    for mutation in mutations(content, MUTATION_COUNT // 5, random.Random(7)):
        os.ftruncate(fd, 0)
        os.pwrite(fd, mutation, 0)
        try:
            with Image.open(path) as image:
                layout = plan_layout(
                    image, [SectionEdit(".debug_dcall", b"x")], [SectionGrowth(".comment", b"y")], [".rela.text"]
                )
        except IcfError:  # a removed section may be needed now, for one
            continue
        planned += 1
        assert layout.size_bytes < len(mutation) + (2 << 20) * 16
        assert all(
            piece.content is not None or piece.source_offset + piece.size_bytes <= len(mutation)
            for piece in layout.pieces
        )
    os.close(fd)
    assert planned > MUTATION_COUNT // 40
