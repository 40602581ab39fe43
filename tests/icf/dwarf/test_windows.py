"""Debug information that stays in the file reads as it does in memory, however little of it is read at a time."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from icf.dwarf import dies, opening, runs, units
from icf.dwarf.inlines import scan_inlines
from icf.dwarf.opening import open_debug
from icf.dwarf.restored import Restored
from icf.dwarf.scan import scan_functions
from icf.elf import file
from icf.elf.image import Image
from tests.support import toolchain
from tests.support.dwarf_units import Reading, read_once

SOURCE = """
struct Base {{ virtual int f(int); virtual ~Base(); }};
template <class T> static int twice(T value) {{ return value * 2; }}
int Base::f(int n) {{ return n; }}
Base::~Base() {{}}
__attribute__((noinline)) int part{i}(int n) {{ return twice(n) + twice<long>(n); }}
__attribute__((noinline, cold)) void bad{i}(int n) {{ asm volatile("" :: "r"(n)); }}
int odd{i}(int n) {{ if (n > 5) {{ bad{i}(n); n += twice(n) + 7; }} return n * 3; }}
int use{i}(Base &base, int n) {{ return base.f(n) + part{i}(n); }}
"""


@pytest.fixture(scope="module", params=("gcc", "clang"))
def image_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared object of six units."""
    driver = toolchain.tool({"gcc": "g++", "clang": "clang++"}[request.param])
    folder = tmp_path_factory.mktemp("windows")
    objects = []
    for i in range(6):
        source = folder / f"part{i}.cc"
        source.write_text("\n" * i + SOURCE.format(i=i))
        toolchain.run(driver, "-O2", "-g", "-fPIC", "-c", source, "-o", source.with_suffix(".o"))
        objects.append(source.with_suffix(".o"))
    path = folder / "all.so"
    toolchain.run(driver, "-shared", "-Wl,-z,muldefs", *objects, "-o", path)
    return path


def in_memory(path: Path) -> Image:
    return Image(str(path), memoryview(path.read_bytes()))


def everything(image: Image, held: slice = slice(0)) -> list[object]:
    reading: Reading = read_once(image)
    debug = open_debug(image, inlines=True)
    debug.hold(held)
    references = np.array([row[column] for row in reading.identities for column in (0, 1)], np.uint64)
    backwards = references[::-1].copy()
    assert debug.strings(references) == [debug.string(each) for each in references.tolist()]
    assert debug.strings(backwards) == debug.strings(references)[::-1]
    inlines = [column.tolist() for part in scan_inlines(debug, 1) for column in part]
    hashes = debug.string_hashes(references).tolist()
    assert debug.hashed_strings(references)[0].tolist() == hashes
    functions = np.array([row[0] for row in reading.functions], np.uint64)
    declared = [column.tolist() for column in dies.resolve(debug, functions)]
    assert debug.string_hashes(backwards).tolist() == hashes[::-1] and len(set(hashes)) > 5
    return [*reading.plain(), inlines, hashes, declared]


@pytest.mark.parametrize("window_bytes", (1, 300, 1 << 20))
def test_a_file_reads_as_its_bytes_do(image_path: Path, window_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = everything(in_memory(image_path))
    monkeypatch.setattr(file, "STREAMED_BYTES", 0)
    monkeypatch.setattr(opening, "_KEPT_INFO_BYTES", 0)
    monkeypatch.setattr(units, "_WINDOW_BYTES", window_bytes)
    monkeypatch.setattr(units, "_HEADER_BYTES", 48 + window_bytes % 1000)
    monkeypatch.setattr(units, "_WINDOW_UNITS", 1 + window_bytes)
    monkeypatch.setattr(dies, "_NEAR_BITS", window_bytes.bit_length())
    with Image.open(image_path) as image:
        assert image.streamed(".debug_info").in_memory is None and len(image.contents(".debug_rnglists"))
        assert everything(image) == everything(image, slice(1, 3)) == expected


def test_threads_that_read_at_the_same_time(image_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scanned(image: Image, threads: int) -> list[list[int]]:
        debug = open_debug(image, inlines=True)
        scan = scan_functions(debug, threads)
        inlined = [column for part in scan_inlines(debug, threads) for column in part]
        return [column.tolist() for column in (*scan.functions, *scan.sites, *inlined)]

    expected = scanned(in_memory(image_path), 1)
    monkeypatch.setattr(file, "STREAMED_BYTES", 0)
    monkeypatch.setattr(units, "_WINDOW_BYTES", 1)
    monkeypatch.setattr(runs, "_RUN_BYTES", 64)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            with Image.open(image_path) as image:
                assert scanned(image, 4) == expected
    finally:
        sys.setswitchinterval(interval_s)


def test_every_truncation_of_units_reads_as_in_memory(image_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section that ends in the middle of a header or a unit."""
    from icf.contents import Contents
    from icf.filebytes import FileBytes

    monkeypatch.setattr(units, "_HEADER_BYTES", 48)
    with Image.open(image_path) as image:
        section = image.section(".debug_info")
        assert section is not None
        start, whole = section.offset, bytes(image.contents(section))
    bytes_of_file = FileBytes.open(str(image_path))
    for size_bytes in (*range(60), *range(len(whole) - 60, len(whole) + 1)):
        cut = Contents.of_file(bytes_of_file, start, start + size_bytes)
        expected = units.read_unit_headers(Contents(memoryview(whole[:size_bytes])))
        assert units.read_unit_headers(cut).tolist() == expected.tolist()
    bytes_of_file.close()


def test_a_restored_word_is_in_each_slice_that_has_a_part_of_it() -> None:
    words = Restored(np.array([4, 20], np.uint64), np.array([0x1122334455667788, 0xFF], np.uint64))
    whole = memoryview(bytearray(32))
    words.put(whole, 0)
    assert whole[4:12].hex() == "8877665544332211" and whole[20:28].hex() == "ff00000000000000"
    for start in range(32):
        for end in range(start, 33):
            part = memoryview(bytearray(end - start))
            words.put(part, start)
            assert part == whole[start:end]
