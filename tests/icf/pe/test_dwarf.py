"""The COFF symbols of a PE image, and the image in the shape that readers of DWARF take."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from icf.elf.types import SHF_EXECINSTR, STB_LOCAL, STT_FILE, STT_FUNC, STT_OBJECT, STT_SECTION
from icf.errors import FormatError
from icf.filebytes import FileBytes
from icf.pe.coff_symbols import CoffSymbols
from icf.pe.debugfile import attach_pdb
from icf.pe.dwarf import DwarfImage, attach_dwarf
from icf.pe.headers import PeHeaders, parse_headers
from icf.pe.image import PeImage
from tests.support.paths import ROOT

SHOP = ROOT / "testdata/pe/shop-dwarf.exe"


def symbol(name: bytes, value: int, section: int, kind: int, storage: int, more: int = 0) -> bytes:
    return name.ljust(8, b"\0") + pack("<IhHBB", value, section, kind, storage, more)


TABLE = (
    symbol(b".file", 0, -2, 0, 103, 2)  # storage class FILE, two records follow
    + b"src\\parts/a_long_n"  # 36 bytes: the path of a source file
    + b"ame.c".ljust(18, b"\0")
    + symbol(b".text", 0, 1, 0, 3, 1)  # a section
    + bytes(18)
    + symbol(b"exactly8", 0x10, 1, 0x20, 2)  # a function with external linkage
    + symbol(pack("<2I", 0, 4), 0x20, 1, 0x20, 3)  # a static function with a long name
    + symbol(b"table", 0x8, 2, 0, 2)  # data
)
STRINGS = pack("<I", 4 + 20 + 12) + b"_Z16a_long_functionv".ljust(20, b"\0") + b"\0.debug_info"


def headers_of(content: bytes, tmp_path: Path, symbols: int, count: int) -> tuple[PeHeaders, FileBytes]:
    path = tmp_path / "app.exe"
    path.write_bytes(content)
    data = FileBytes.open(str(path))
    with PeImage.open(str(SHOP)) as image:
        return image.headers._replace(symbols=symbols, symbol_count=count), data


def test_symbols_are_those_of_the_table(tmp_path: Path) -> None:
    strings = STRINGS[:24] + b"\0" + b".debug_info\0"
    headers, data = headers_of(b"head" + TABLE + pack("<I", len(strings)) + strings[4:], tmp_path, 4, 8)
    symbols = CoffSymbols(headers, data, "app.exe")
    assert symbols.rows.tolist() == [0, 3, 5, 6, 7]
    text, offsets = symbols.text
    names = [bytes(text[at : bytes(text).index(b"\0", at)]) for at in offsets.tolist()]
    assert names == [b"a_long_name.c", b".text", b"exactly8", b"_Z16a_long_functionv", b"table"]
    assert symbols.is_function().tolist() == [False, False, True, True, False]
    assert symbols.section_name("/25") == ".debug_info" and symbols.section_name("//AAAAAZ") == ".debug_info"
    assert symbols.section_name("/x") == "/x" and symbols.section_name(".text") == ".text"


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    for size_bytes in range(5, 4 + len(TABLE)):
        headers, data = headers_of((b"head" + TABLE)[:size_bytes], tmp_path, 4, 8)
        with pytest.raises(FormatError, match=r"PE header\+0xc: 8 symbols at 0x4 end outside of the file of \d+ bytes"):
            CoffSymbols(headers, data, "app.exe")
    for size_bytes in range(4, len(STRINGS)):
        headers, data = headers_of(b"head" + TABLE + STRINGS[:size_bytes], tmp_path, 4, 8)
        with pytest.raises(FormatError, match=r"strings\+0x94: 36 bytes of strings end outside of the file"):
            CoffSymbols(headers, data, "app.exe")


def test_weak_functions_have_the_names_of_the_source(tmp_path: Path) -> None:
    names = [b".weak.f.default.g", b".weak._Z1fi.main", b".weak.f", b".weak.f.cold.default.g", b".weakened"]
    table, strings = b"", b"\0".join(names) + b"\0"
    for name in names:
        table += symbol(pack("<2I", 0, 4 + strings.index(name)), 0, 1, 0x20, 2)
    headers, data = headers_of(b"head" + table + pack("<I", 4 + len(strings)) + strings, tmp_path, 4, len(names))
    text, offsets = CoffSymbols(headers, data, "app.exe").text
    found = [bytes(text[at : bytes(text).index(b"\0", at)]) for at in offsets.tolist()]
    assert found == [b"f", b"_Z1fi", b"f", b".weak.f.cold.default.g", b".weakened"]


def test_one_long_name_for_all_is_refused(tmp_path: Path) -> None:
    strings = pack("<I", 4 + 100_001) + b"n" * 100_000 + b"\0"
    table = b"".join(symbol(pack("<2I", 0, 4 + row), 0, 1, 0x20, 2) for row in range(200))
    headers, data = headers_of(b"head" + table + strings, tmp_path, 4, 200)
    symbols = CoffSymbols(headers, data, "app.exe")
    with pytest.raises(FormatError, match=r"symbols\+0x0: names share the 100005 bytes of strings too often"):
        symbols.text  # noqa: B018
    with pytest.raises(FormatError, match=r"strings\+0x4: string has no terminating NUL"):
        symbols.section_name("/4")
    assert symbols.section_name("/100000") == "nnnn"


def test_an_image_has_the_shape_of_an_elf_image() -> None:
    with PeImage.open(str(SHOP)) as image:
        attach_pdb(image, None, ())
        attach_dwarf(image)
        dwarf = image.dwarf
        assert isinstance(dwarf, DwarfImage)
        names = [section.name for section in dwarf.sections]
        assert names[:4] == ["", ".text", ".rdata", ".data"] and ".debug_str_offsets" in names
        text, info = dwarf.named(".text"), dwarf.named(".debug_info")
        assert text is not None and info is not None
        assert text.flags & SHF_EXECINSTR and text.is_alloc and not info.is_alloc
        assert dwarf.read(text.vaddr, 16) == image.read(text.vaddr, 16)
        assert (dwarf.span, dwarf.build_id) == (image.span, image.build_id)
        assert set(dwarf.backed) < set(image.backed)
        content = dwarf.contents(".debug_info")
        assert int.from_bytes(content[:4], "little") + 4 == len(content)  # without the padding in the file
        assert dwarf.linker.folds_functions and not dwarf.linker.relocations_restore


def test_sizes_of_functions_are_from_unwind_information() -> None:
    with PeImage.open(str(SHOP)) as image:
        symbols = DwarfImage(image).symbols
        of = {symbols.name(row): row for row in range(len(symbols))}
        orders = of["?orders@@YAHPEAU?$List@UOrder@@@@PEAUOrder@@@Z"]
        assert int(symbols.size_bytes[orders]) == 48 and symbols.type[orders] == STT_FUNC
        assert int(symbols.size_bytes[of["?count@@YAXH@Z"]]) == 0  # a leaf function has none
        rebate = of["?rebate@@YAHH@Z"]
        assert symbols.bind[rebate] == STB_LOCAL and symbols.type[rebate] == STT_FUNC
        assert symbols.type[of["?picked@@3REAUItem@@EA"]] == STT_OBJECT
        assert not {STT_FILE, STT_SECTION} & set(symbols.type.tolist())


def test_a_function_with_an_auxiliary_record_is_one(tmp_path: Path) -> None:
    content = bytearray(SHOP.read_bytes())
    with PeImage.open(str(SHOP)) as image:
        symbols, count = image.headers.symbols, image.headers.symbol_count
    table = symbol(b"first", 0, 1, 0x20, 3, 1) + bytes(18) + symbol(b".text", 0, 1, 0, 3, 1) + bytes(18)
    content[symbols : symbols + len(table)] = table  # as GNU as writes them
    (tmp_path / "app.exe").write_bytes(content)
    with PeImage.open(str(tmp_path / "app.exe")) as image:
        found = DwarfImage(image).symbols
        assert found.names([0, 1]) == ["first", ".text"] and len(found) == count - 2
        assert found.type[:2].tolist() == [STT_FUNC, STT_SECTION]


def test_an_image_with_a_pdb_or_without_dwarf_has_none() -> None:
    with PeImage.open(str(SHOP.with_name("shop.exe"))) as image:
        attach_dwarf(image)
        assert image.dwarf is None
    data = FileBytes.open(str(SHOP))
    assert parse_headers(data, "app.exe").symbol_count > 30
