"""What a linker wrote into a field, against the relocations that it says it has applied."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from icf.elf.fields import Fields
from icf.elf.image import Image
from icf.elf.types import STT_SECTION, Machine
from tests.support.toolchain import compile_object, link

SOURCE = """
extern "C" int other(int), outside(int), unseen(int) __attribute__((weak, visibility("hidden")));
extern "C" { int shared[4]; static int own[4]; }
static int (*volatile table[])(int) = {other, outside};
struct Base { virtual int f(int n) { return n; } virtual ~Base() {} } *made;
int far_call(int n) { return (*table[n])(n) + other(n) + outside(n); }
int *addresses(int n) { return n ? shared + 1 : own + 2; }
void *function(int n) { return n ? (void *)other : (void *)far_call; }
extern "C" int other(int n) { made = new Base; return n + shared[n] + own[n]; }
extern "C" __attribute__((noinline)) int outside(int n) { __asm__ volatile(""); return n; }
extern "C" void _start() { far_call(1); addresses(1); function(1); made->f(1); }
void operator delete(void *, decltype(sizeof 0)) noexcept {}
void *operator new(decltype(sizeof 0)) { return shared; }
extern "C" int __cxa_pure_virtual() { return 0; }
"""
FLAGS = {
    "static": (("-fno-pic",), ("-static", "-no-pie")),
    "pie": (("-fPIE",), ("-pie",)),
    "got": (("-fPIC", "-fno-plt", "-Wa,-mrelax-relocations=yes"), ("-pie",)),
    "kept got": (("-fPIC", "-fno-plt"), ("-pie", "-Wl,--no-relax")),
}
COMMON = ("-O1", "-ffreestanding", "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables")


def check(path: Path) -> Counter[int]:
    """Read all fields of code and data back; the types of those that gave an address, which is the symbol's."""
    read: Counter[int] = Counter()
    with Image.open(path) as image:
        fields = Fields(image)
        symbols = image.symbols
        for section in image.sections:
            relocations = image.relocations(section) if section.name.startswith((".rela.text", ".rela.data")) else None
            if relocations is None or section.is_alloc:
                continue
            rows = np.lexsort((np.arange(relocations.count), relocations.offset))
            symbol = relocations.symbol[rows]
            wanted = symbols.value[symbol].view(np.int64)
            found, known = fields.symbols(
                relocations.offset[rows].view(np.int64),
                relocations.type[rows],
                relocations.addend[rows],
                symbol.astype(np.int64),
            )
            known &= symbols.is_defined[symbol] & (symbols.type[symbol] != STT_SECTION)
            assert found[known].tolist() == wanted[known].tolist()
            read.update(relocations.type[rows][known].tolist())
    return read


@pytest.mark.parametrize("linker", ["lld", "bfd", "gold", "mold"])
@pytest.mark.parametrize("kind", FLAGS)
def test_fields_of_x86_64(linker: str, kind: str, tmp_path: Path) -> None:
    flags, link_flags = FLAGS[kind]
    made = compile_object(SOURCE, *COMMON, *flags)
    image = link(tmp_path / "image", linker, "-nostdlib", "-Wl,--emit-relocs,-e,_start", *link_flags, made)
    wanted = {"static": (4, 10), "pie": (2, 4, 1), "got": (41, 42), "kept got": (41, 42)}[kind]
    if linker == "bfd" and kind != "kept got":
        wanted = tuple(type_ for type_ in wanted if type_ not in (41, 42))  # its list shows them as relaxed
    read = check(image)
    if linker != "mold":  # which writes symbol 0 in places
        assert all(read[type_] for type_ in wanted), read


@pytest.mark.parametrize("linker", ["lld", "bfd"])
@pytest.mark.parametrize("kind", ["static", "pie"])
def test_fields_of_aarch64(linker: str, kind: str, tmp_path: Path) -> None:
    flags, link_flags = FLAGS[kind]
    made = compile_object(SOURCE, *COMMON, *flags, arch="aarch64")
    image = link(
        tmp_path / "image", linker, "-nostdlib", "-Wl,--emit-relocs,-e,_start", *link_flags, made, arch="aarch64"
    )
    read = check(image)
    assert read[283] and read[275] and read[277] and read[257], read


def test_places_outside_of_the_file_tell_nothing(tmp_path: Path) -> None:
    image_path = link(tmp_path / "image", "lld", "-nostdlib", "-Wl,-e,_start", compile_object(SOURCE, *COMMON))
    with Image.open(image_path) as image:
        assert image.machine is Machine.X86_64
        places = np.array([0, -1, 1 << 62, -(1 << 63), (1 << 63) - 1], np.int64)
        for type_ in (1, 2, 4, 9, 10, 11, 24, 41, 42, 999):
            types, addends = np.full(len(places), type_, np.uint32), np.full(len(places), -4, np.int64)
            known = Fields(image).symbols(places[1:], types[1:], addends[1:], places[1:])[1]
            assert not known.any()
