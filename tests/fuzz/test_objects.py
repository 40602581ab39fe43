"""10,000 mutated objects, archives and texts of a link: a result, FormatError or UnsupportedError, never more.

Headers are hit more often than contents, since that is where one byte goes a long way.
"""

from __future__ import annotations

import os
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack

import numpy as np
import pytest

from icf.elf.archive import Archive, MissingFileError
from icf.elf.objectfile import ObjectFile
from icf.elf.types import (
    ET_REL,
    SHF_ALLOC,
    SHF_COMPRESSED,
    SHF_EXECINSTR,
    SHT_GROUP,
    SHT_NOBITS,
    SHT_RELA,
    SHT_SYMTAB_SHNDX,
    Machine,
)
from icf.errors import FormatError, IcfError, UnsupportedError
from icf.linkinputs.commandline import input_words
from icf.linkinputs.inputs import open_inputs
from icf.linkinputs.linkmap import parse_link_map
from icf.linkinputs.responsefile import split_words
from tests.fuzz.limits import many, peak_memory, reset_peak_memory
from tests.support.archives import header
from tests.support.elf import Elf, Part, Sym, symbol_parts

INFO = b"debug info " * 20
MEMORY_LIMIT_BYTES = 32 << 20


def object_seed(machine: Machine) -> bytes:
    """Every kind of section that is read."""
    code = SHF_ALLOC | SHF_EXECINSTR
    symbols = [
        Sym("file.c", 4, 0, 0xFFF1),
        Sym("", 3, 0, 3),
        Sym("f", 2, 1, 3, 0, 4),
        Sym("far", 10, 1, 0xFFFF, 2),
        Sym("undefined", 2, 1),
    ]
    rela = pack("<QIIq", 1, 4, 5, -4) + pack("<QIIq", 6, 2, 2, 1)
    parts = [
        *symbol_parts(symbols, 1),
        Part(".text.f", flags=code, content=bytes(8)),
        Part(".rela.text.f", SHT_RELA, content=rela, link=1, info=3, align=8, entsize=24),
        Part(".group", SHT_GROUP, content=pack("<III", 1, 3, 4), link=1, info=3, align=4, entsize=4),
        Part(".group", SHT_GROUP, content=pack("<II", 1, 8), link=1, info=4, align=4, entsize=4),
        Part(".bss", SHT_NOBITS, SHF_ALLOC, size_bytes=64),
        Part(".text.far", flags=code, content=bytes(8)),
        Part(".rela.text.far", SHT_RELA, content=rela, link=1, info=8, align=8, entsize=24),
        Part(".symtab_shndx", SHT_SYMTAB_SHNDX, content=pack("<6I", 0, 0, 0, 0, 8, 0), link=1, entsize=4),
        Part(".debug_info", flags=SHF_COMPRESSED, content=pack("<IIQQ", 1, 0, len(INFO), 1) + zlib.compress(INFO)),
        Part(".zdebug_str", content=b"ZLIB" + len(INFO).to_bytes(8, "big") + zlib.compress(INFO)),
    ]
    return Elf(parts, machine=machine, type=ET_REL).build()


ARCHIVES = [
    b"!<arch>\n" + header("/", 4) + bytes(4) + header("//", 8) + b"long.o/\n" + header("/0", 3) + b"abc\n"
    + header("a.o/", 2) + b"ab",
    b"!<arch>\n" + header("#1/12", 14) + b"name.o\0\0\0\0\0\0ab" + header("b.o", 0),
    b"!<thin>\n" + header("//", 8) + b"long.o/\n" + header("/0", 5) + header("/0:68", 5) + header("b.o/", 0),
]  # fmt: skip


@pytest.fixture
def memory_file() -> Iterator[int]:
    fd = os.memfd_create("mutation")
    yield fd
    os.close(fd)


def mutations(content: bytes, count: int, rng: random.Random, regions: list[tuple[int, int]]) -> Iterator[bytes]:
    """Copies with a few bytes changed, values at their limits preferred, or cut short."""
    for index in range(count):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 4))):
            offset = rng.randrange(*rng.choice(regions))
            changed[offset] = rng.choice((0, 1, 0x2F, 0x30, 0x39, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            if rng.random() < 0.1:  # a whole word at its limit
                changed[offset : offset + 8] = b"\xff" * len(changed[offset : offset + 8])
        yield bytes(changed[: rng.randrange(len(changed))] if index % 20 == 0 else changed)


def each(function: Callable[[int], object], count: int) -> None:
    """Ask for every index on its own, so that one refusal does not hide what comes after."""
    for index in range(min(count, 40)):
        try:
            function(index)
        except (FormatError, UnsupportedError):
            pass


def read_all(obj: ObjectFile) -> None:
    questions: list[Callable[[], object]] = [
        lambda: obj.source_file,
        lambda: obj.has_lto_code,
        lambda: obj.symbols.shndx,
        lambda: [obj.symbol_name(int(row)) for row in obj.functions],
        lambda: [bytes(obj.contents(int(obj.symbols.shndx[row]))) for row in obj.functions],
        lambda: obj.symbols.names(obj.relocations_in(np.arange(obj.sections.count))[1]["symbol"]),
        lambda: obj.relocations_in(np.flatnonzero(obj.sections.is_code)),
        lambda: obj.group_symbol,
        lambda: obj.sections.named(".text.f"),
    ]
    for question in questions:
        each(lambda _, question=question: question(), 1)  # type: ignore[misc]
    for function in (obj.section_name, obj.contents, obj.relocations_of):
        each(function, obj.sections.count)
    each(obj.symbol_name, obj.symbols.count)


@pytest.mark.parametrize("machine", Machine)
def test_objects(machine: Machine) -> None:
    content = object_seed(machine)
    obj = ObjectFile.parse(memoryview(content), "seed.o")
    read_all(obj)
    assert len(obj.functions) == 2 and obj.group_symbol[[3, 4, 8]].tolist() == [3, 3, 4]
    shoff = int.from_bytes(content[40:48], "little")
    regions = [(0, 64 + 8 * 24), (shoff, len(content)), (0, len(content))]
    parsed = slowest_ns = 0
    for index, mutation in enumerate(mutations(content, many(2_000), random.Random(machine), regions)):
        if index == 100:  # everything lazy is imported
            start_bytes = reset_peak_memory()
        start_ns = time.thread_time_ns()
        try:
            obj = ObjectFile.parse(memoryview(mutation), "a.o")
            parsed += 1
            read_all(obj)
        except (FormatError, UnsupportedError):
            pass
        slowest_ns = max(slowest_ns, time.thread_time_ns() - start_ns)
    assert peak_memory() - start_bytes < MEMORY_LIMIT_BYTES
    assert parsed > many(1_000)  # else nothing but the file header was tried
    assert slowest_ns < 1_000_000_000


@pytest.mark.parametrize("index", range(len(ARCHIVES)))
def test_archives(index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("long.o").write_bytes(ARCHIVES[0])  # at 68 the header of its first member
    Path("b.o").touch()
    content, read = ARCHIVES[index], 0
    assert [member.name for member in Archive(memoryview(content), "a.a")]
    for mutation in mutations(content, many(1_000), random.Random(index), [(0, len(content))]):
        try:
            archive = Archive(memoryview(mutation), "a.a")
            for member in archive:
                read += 1
                archive.name(member)
                assert len(archive.contents(member)) <= len(mutation) + len(ARCHIVES[0])
        except (FormatError, MissingFileError):
            pass
        except IcfError as error:  # a path that has become "." or too long
            assert "cannot be read" in str(error) or "name too long" in str(error)
    assert read > many(500)


def test_inputs(memory_file: int) -> None:
    """An archive with an object in it, changed in both."""
    content = object_seed(Machine.X86_64)
    content = ARCHIVES[0] + header("c.o/", len(content)) + content
    path = f"/proc/self/fd/{memory_file}"
    opened = 0
    regions = [(0, len(ARCHIVES[0]) + 120), (0, len(content))]
    for mutation in mutations(content, many(1_000), random.Random(3), regions):
        os.ftruncate(memory_file, 0)
        os.pwrite(memory_file, mutation, 0)
        try:
            for obj in open_inputs([f"{path}(c.o)", path], missing_ok=True):
                opened += 1
                each(obj.section_name, obj.sections.count)
        except (FormatError, UnsupportedError):
            pass
    assert opened > many(500)


MAPS = [
    "             VMA              LMA     Size Align Out     In      Symbol\n"
    "            1610             1610       22    16         lib.a(main.o):(.text)\n",
    "               VMA       Size Align Out     In      Symbol\n"
    "            0x1669         39     1         a.o:(.text)\n",
    " .text.f        0x0000000000001000       0x20 main.o\n"
    " .text._Zlong\n                0x0000000000001020       0x20 a.o\n",
]
RESPONSE = """-Wl,--start-group,'a b.o' -Xlinker c.o -lm -L lib -o out d\\ e.o "@x" --end-group -l pthread\n"""


def map_lines(fd: int, text: bytes) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, text, 0)
    parse_link_map(f"/proc/self/fd/{fd}")


def words(_: int, text: bytes) -> None:
    input_words(split_words(text.decode("utf-8", "surrogateescape"), "x.rsp"))


@pytest.mark.parametrize("parse", [map_lines, words])
def test_texts(parse: Callable[[int, bytes], None], memory_file: int) -> None:
    outcomes: Counter[str] = Counter()
    for index, text in enumerate([*MAPS, RESPONSE]):
        for mutation in mutations(text.encode(), many(500), random.Random(index), [(0, len(text))]):
            try:
                parse(memory_file, mutation)
                outcomes["read"] += 1
            except FormatError as error:
                outcomes[error.path] += 1
    path = "x.rsp" if parse is words else f"/proc/self/fd/{memory_file}"
    assert set(outcomes) == {"read", path} and outcomes["read"] > many(500)


def test_long_lines_take_no_longer_than_short_ones(memory_file: int) -> None:
    """A pattern that tries again at every position would take hours for these."""
    start_s = time.thread_time()
    heading = MAPS[0].partition("\n")[0] + "\n"
    for line in (
        " " * 1_000_000,
        "1 " * 500_000,
        "1 1 1 1" + " " * 9 + "x:(" * 300_000,
        " .text" + " 0x00000000" * 90_000,
    ):
        for head in ("", heading):
            try:
                map_lines(memory_file, (head + line).encode())
            except FormatError:
                pass
    words(memory_file, b"'\\'" * 300_000)
    assert time.thread_time() - start_s < 5
