"""Where exceptions enter functions."""

from __future__ import annotations

import re
from pathlib import Path
from struct import pack

import numpy as np
import pytest

from icf.dwarf.cfi.landing_pads import LandingPads
from icf.elf.image import Image
from icf.elf.types import PT_LOAD, SHF_ALLOC, SHT_PROGBITS
from tests.support.call_frames import FRAMES_AT, cie, fde
from tests.support.elf import Elf, Part
from tests.support.toolchain import run, tool

TABLES_AT = 0x2000
FUNCTION, OTHER = 0x4000, 0x4100
SITES = bytes.fromhex(
    "00 10 30 01"  # bytes 0 to 0x10 of the function: landing pad 0x30
    "10 08 00 00"  # no landing pad
    "18 08 c001 00"  # 0xc0
)
TABLE = bytes.fromhex("ff 9b 20 01") + bytes([len(SITES)]) + SITES  # start: the function; types; ULEB128
WORDS = pack("<III", 0x10, 8, 0x40) + b"\0" + pack("<III", 0x18, 8, 0) + b"\0"
WITH_START = b"\x03" + pack("<I", 0x5000) + b"\xff\x03" + bytes([len(WORDS)]) + WORDS


def image_of(table: bytes, *, encoding: int = 0x00, address: bytes = pack("<Q", TABLES_AT)) -> Image:
    frames = cie(augmentation=b"zRL", data=bytes([0, encoding]))
    frames += fde(frames, FUNCTION, 0x100, data=address)
    frames += fde(frames, OTHER, 0x10, data=bytes(len(address)))
    parts = [
        Part(".eh_frame", SHT_PROGBITS, SHF_ALLOC, frames, FRAMES_AT),
        Part(".gcc_except_table", SHT_PROGBITS, SHF_ALLOC, table, TABLES_AT),
    ]
    return Image("made", memoryview(Elf(parts, [(PT_LOAD, 4, ".gcc_except_table")]).build()))


def pads_of(image: Image, *starts: int) -> tuple[list[int], list[int]]:
    pads, unread = LandingPads(image)(np.array(starts, np.uint64))
    return pads.tolist(), unread.tolist()


@pytest.mark.parametrize(
    ("table", "expected"),
    [(TABLE, [FUNCTION + 0x30, FUNCTION + 0xC0]), (WITH_START, [0x5040]), (b"\xff\xff\x01\x00", [])],
)
def test_pads(table: bytes, expected: list[int]) -> None:
    assert pads_of(image_of(table), FUNCTION) == (expected, [])
    assert pads_of(image_of(table), OTHER, 0x9000) == ([], [])  # without a table, without an FDE
    place = FRAMES_AT + len(cie(augmentation=b"zRL", data=bytes(2))) + 25  # after length, CIE, two addresses, size
    near = pack("<i", TABLES_AT - place)  # relative to its own place
    assert pads_of(image_of(table, encoding=0x1B, address=near), FUNCTION, OTHER) == (expected, [])


@pytest.mark.parametrize("size_bytes", range(len(TABLE)))
def test_of_a_truncated_table_nothing_is_known(size_bytes: int) -> None:
    assert pads_of(image_of(TABLE[:size_bytes]), FUNCTION, OTHER) == ([], [FUNCTION])


def test_tables_that_overlap_are_read_as_long_as_the_section_is_twice() -> None:
    starts = [FUNCTION + 0x10 * idx for idx in range(5)]
    frames = before = cie(augmentation=b"zRL", data=bytes(2))
    for start in starts:
        frames += fde(before, start, 0x10, data=pack("<Q", TABLES_AT))
        before = frames
    parts = [
        Part(".eh_frame", SHT_PROGBITS, SHF_ALLOC, frames, FRAMES_AT),
        Part(".gcc_except_table", SHT_PROGBITS, SHF_ALLOC, TABLE, TABLES_AT),
    ]
    pads = LandingPads(Image("made", memoryview(Elf(parts, [(PT_LOAD, 4, ".gcc_except_table")]).build())))
    for _ in range(2):  # what was read is not read again
        found, unread = pads(np.array(starts, np.uint64))
        assert found.tolist() == [FUNCTION + at for at in (0x30, 0x40, 0xC0, 0xD0)]
        assert unread.tolist() == starts[2:]


def test_of_a_malformed_index_nothing_is_known() -> None:
    frames = cie()
    parts = [
        Part(".eh_frame", SHT_PROGBITS, SHF_ALLOC, frames, FRAMES_AT),
        Part(".eh_frame_hdr", SHT_PROGBITS, SHF_ALLOC, b"\7\0\0\0", 0x3000),
    ]
    image = Image("made", memoryview(Elf(parts).build()))
    assert pads_of(image, FUNCTION, OTHER) == ([], [FUNCTION, OTHER])


@pytest.mark.parametrize(("compiler", "flags"), [("g++", ()), ("clang++", ()), ("g++", ("-static-pie",))])
def test_pads_are_where_compilers_save_the_exception(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text("""
        void f(int); struct S { ~S(); int x; };
        volatile int total;
        __attribute__((noinline)) void f(int x) { if (x > 3) throw x; }
        __attribute__((noinline)) S::~S() { total = 1; }
        int main() {
            try { S s; f(1); total = 2; f(2); } catch (int x) { total = x; }
            try { f(5); } catch (int x) { total = x; }
            return total != 5;
        }
    """)
    program = tmp_path / "program"
    run(tool(compiler), "-O1", *flags, tmp_path / "main.cpp", "-o", program)
    with Image.open(program) as image:
        main = next(
            int(image.symbols.value[row]) for row in range(image.symbols.count) if image.symbols.name(row) == "main"
        )
        pads, unread = pads_of(image, main)
        listing = run(tool("objdump"), "-d", "--no-show-raw-insn", "--disassemble=main", program).stdout
    assert len(pads) >= 2 and not unread
    for pad in pads:
        first = re.search(rf"^ *{pad:x}:(.*)$", listing, re.MULTILINE)
        assert first is not None and re.search("%r[ad]x|endbr64", first[1])
