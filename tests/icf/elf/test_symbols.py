"""Symbols and relocations: every row against pyelftools, and the corners that no linker makes for us."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from icf.elf import string_table
from icf.elf import symbols as symbols_module
from icf.elf.image import Image
from icf.elf.string_table import StringTable
from icf.elf.types import SHN_ABS, SHT_NOTE, SHT_RELA, SHT_STRTAB, SHT_SYMTAB, SHT_SYMTAB_SHNDX
from icf.errors import FormatError, UnsupportedError
from tests.support.elf import Elf, Part, Sym, symbol_parts
from tests.support.toolchain import LINKERS, compile_object, link

PROGRAM = """
static int __attribute__((noinline)) local_one(int x) { return x * 3 + 1; }
extern "C" int outside(int);
int visible(int x) { return local_one(x) + outside(x); }
"""


@pytest.mark.parametrize("linker", LINKERS)
def test_all_symbols_and_relocations_are_those_of_pyelftools(linker: str, tmp_path: Path) -> None:
    program = compile_object(PROGRAM, "-O1", "-g", "-fPIC")
    path = link(tmp_path / "a.so", linker, program, "-shared", "-Wl,--emit-relocs")
    with Image.open(path) as image, path.open("rb") as file:
        oracle = ELFFile(file)
        for section in oracle.iter_sections():
            if isinstance(section, SymbolTableSection):
                symbols = image.symbols if section.name == ".symtab" else image.dynamic_symbols
                assert symbols.count == section.num_symbols()
                for row, theirs in enumerate(section.iter_symbols()):
                    assert symbols.value[row] == theirs["st_value"] and symbols.size_bytes[row] == theirs["st_size"]
                    assert symbols.name_offset[row] == theirs["st_name"]
                    assert f"STB_{('LOCAL', 'GLOBAL', 'WEAK')[symbols.bind[row]]}" == theirs["st_info"]["bind"]
                    if isinstance(theirs["st_shndx"], int):
                        assert symbols.shndx[row] == theirs["st_shndx"] and symbols.is_defined[row]
                    else:
                        assert not symbols.is_defined[row]
                    if theirs["st_info"]["type"] != "STT_SECTION":
                        assert symbols.name(row) == theirs.name
            elif isinstance(section, RelocationSection):
                relocations = image.relocations(section.name)
                assert relocations is not None and relocations.count == section.num_relocations()
                for row, entry in enumerate(section.iter_relocations()):
                    assert relocations.offset[row] == entry["r_offset"]
                    assert relocations.type[row] == entry["r_info_type"]
                    assert relocations.symbol[row] == entry["r_info_sym"]
                    assert relocations.addend[row] == entry["r_addend"]
        relocations = image.relocations(".rela.text")
        assert relocations is not None and relocations.symbols is image.symbols
        assert image.sections[relocations.section.info].name == ".text"


def elf_of(tmp_path: Path, symbols: list[Sym], *more: Part) -> Image:
    """An image whose section 1 is the symbol table, 2 its strings, then `more`."""
    path = tmp_path / "a.out"
    path.write_bytes(Elf([*symbol_parts(symbols, 1), *more]).build())
    return Image.open(path)


def test_functions_are_sorted_by_address_then_row(tmp_path: Path) -> None:
    symbols = elf_of(
        tmp_path,
        [
            Sym("file.c", type=4, shndx=0xFFF1),
            Sym("late", 2, 1, 1, (1 << 63) + 5, 4),
            Sym("undefined", 2, 1, 0, 0),
            Sym("first_of_two", 2, 1, 1, 16),
            Sym("data", 1, 1, 1, 16),
            Sym("ifunc", 10, 1, 1, 8),
            Sym("second_of_two", 2, 2, 1, 16, 0),
            Sym("absolute", 2, 1, 0xFFF1, 4),
        ],
    ).symbols
    assert symbols.names(symbols.functions.tolist()) == ["ifunc", "first_of_two", "second_of_two", "late"]
    assert symbols.shndx[8] == SHN_ABS


def test_file_names_are_of_local_symbols_only(tmp_path: Path) -> None:
    symbols = elf_of(
        tmp_path,
        [
            Sym("before", 2, 0, 1),
            Sym("a.c", 4, 0, 0xFFF1),
            Sym("in_a", 2, 0, 1),
            Sym("b.c", 4, 0, 0xFFF1),
            Sym("in_b", 2, 0, 1),
            Sym("", 4, 0, 0xFFF1),
            Sym("in_none", 2, 0, 1),
            Sym("everywhere", 2, 1, 1),
            Sym("ld-temp.o", 4, 0, 0xFFF1),  # LTO
            Sym("in_many", 2, 0, 1),
        ],
    ).symbols
    assert [symbols.file_name(row) for row in (1, 3, 5, 7, 8, 10)] == ["", "a.c", "b.c", "", "", ""]


def test_what_gold_made_local_is_of_no_known_file(tmp_path: Path) -> None:
    symbols = elf_of(
        tmp_path,
        [
            Sym("a.c", 4, 0, 0xFFF1),
            Sym("in_a", 2, 0, 1),
            Sym("crtstuff.c", 4, 0, 0xFFF1),
            Sym("hidden", 2, 0, 1),
            Sym("everywhere", 2, 1, 1),
        ],
        Part(".note.gnu.gold-version", SHT_NOTE, 0, pack("<3I4s8s", 4, 8, 4, b"GNU", b"gold 1.1")),
    ).symbols
    assert [symbols.file_name(row) for row in (2, 4, 5)] == ["a.c", "", ""]


def test_section_indices_past_sixteen_bits(tmp_path: Path) -> None:
    # SHN_XINDEX with 0xfff1 in the extension is a real section; SHN_ABS is none
    extension = pack("<4I", 0, 0xFFF1, 0, 7)
    symbols = elf_of(
        tmp_path,
        [Sym("far", 2, 1, 0xFFFF), Sym("absolute", 2, 1, 0xFFF1), Sym("near", 2, 1, 0xFFFF)],
        Part(".symtab_shndx", SHT_SYMTAB_SHNDX, 0, extension, link=1, entsize=4),
    ).symbols
    assert symbols.shndx.tolist() == [0, 0xFFF1, SHN_ABS, 7]
    assert symbols.is_defined.tolist() == [False, True, False, True]


def test_an_escaped_index_without_its_section_is_refused(tmp_path: Path) -> None:
    symbols = elf_of(tmp_path, [Sym("far", 2, 1, 0xFFFF)]).symbols
    with pytest.raises(FormatError, match=r"\.symtab\+0x18: symbol with SHN_XINDEX has no entry"):
        _ = symbols.shndx


def test_a_long_name_and_one_without_end(tmp_path: Path) -> None:
    assert elf_of(tmp_path, [Sym("x" * 5000, 2, 1, 1)]).symbols.name(1) == "x" * 5000
    symbols = elf_of(tmp_path, [Sym("x" * 5000, 2, 1, 1)]).symbols
    symbols.strings = StringTable(memoryview(b"\0" + b"x" * 5000))
    with pytest.raises(FormatError, match=r"symbol name at 0x1 has no end in the string table of 5001 bytes"):
        symbols.name(1)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part(".symtab", SHT_SYMTAB, 0, bytes(25), link=1, entsize=24), "25 bytes in entries of 24"),
        (Part(".symtab", SHT_SYMTAB, 0, bytes(48), link=1, entsize=16), "48 bytes in entries of 16"),
        (Part(".symtab", SHT_SYMTAB, 0, bytes(48), link=9, entsize=24), "sh_link 9: no string table"),
        (Part(".symtab", SHT_SYMTAB, 0, bytes(48), link=2, entsize=24), "sh_link 2: no string table"),
    ],
)
def test_broken_symbol_tables(part: Part, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    path.write_bytes(Elf([Part(".strtab", SHT_STRTAB, 0, b"\0"), part]).build())
    with Image.open(path) as image, pytest.raises(FormatError, match=message):
        _ = image.symbols


def test_a_relocation_of_a_symbol_that_does_not_exist(tmp_path: Path) -> None:
    rela = pack("<QIIq", 0x1000, 1, 1, 0) + pack("<QIIq", 0x1008, 1, 2, -1)
    image = elf_of(tmp_path, [Sym("one")], Part(".rela.text", SHT_RELA, 0, rela, link=1, entsize=24))
    relocations = image.relocations(".rela.text")
    assert relocations is not None and relocations.addend.tolist() == [0, -1]
    with pytest.raises(FormatError, match=r"\.rela\.text\+0x18: relocation names symbol 2, its table has 2"):
        _ = relocations.symbol


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (Part(".rel.text", 9, 0, bytes(16), link=1, entsize=16), UnsupportedError, "section type 9 is not handled"),
        (Part(".rel.text", SHT_RELA, 0, bytes(25), link=1, entsize=24), FormatError, "25 bytes in entries of 24"),
        (Part(".rel.text", SHT_RELA, 0, bytes(24), link=1, entsize=0), FormatError, "24 bytes in entries of 0"),
    ],
)
def test_broken_relocation_sections(part: Part, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        elf_of(tmp_path, [], part).relocations(".rel.text")


def test_a_relocation_section_without_symbols(tmp_path: Path) -> None:
    rela = pack("<QIIq", 0x1000, 37, 0, 0x2000)
    relocations = elf_of(tmp_path, [], Part(".rela.plt", SHT_RELA, 2, rela, entsize=24)).relocations(".rela.plt")
    assert relocations is not None and relocations.symbol.tolist() == [0] and relocations.symbols.count == 0


def test_names_that_hold_a_part_are_found_also_at_the_end_of_another(tmp_path: Path) -> None:
    names = ["f.cold", "g", "cold", "h.cold.1", "i"]
    symbols = elf_of(tmp_path, [Sym(name, 2, 1, 1) for name in names]).symbols
    rows = np.arange(len(symbols.name_offset))
    assert symbols.holds(b".cold", rows).tolist() == [".cold" in symbols.name(row) for row in rows.tolist()]
    symbols.name_offset[2] = symbols.name_offset[1] + 2  # "cold", the end of "f.cold"
    symbols.name_offset[3] = symbols.name_offset[1] + 1
    assert symbols.holds(b".cold", rows).tolist() == [False, True, False, True, True, False]
    assert not symbols.holds(b"nowhere", rows).any()


def test_a_large_string_table_stays_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    stems = ["_ZTV", "_ZTC", "f.cold", "_ZN1aC2Ev", "_ZN1aC1Ev.part.0", "x" * 70_000]
    names = [f"{stems[kind]}{number}" for number, kind in enumerate(rng.integers(0, len(stems), 300))]
    monkeypatch.setattr(string_table, "_PIECE_BYTES", 100)
    found = []
    for kept_bytes in (16 << 20, 0):
        monkeypatch.setattr(symbols_module, "_KEPT_BYTES", kept_bytes)
        symbols = elf_of(tmp_path, [Sym(name, 2, 1, 1) for name in names]).symbols
        assert len(list(symbols.strings.pieces())) == 1 or kept_bytes == 0
        rows = rng.permutation(symbols.count)
        assert symbols.names(rows) == [["", *names][row] for row in rows]
        rows = np.arange(symbols.count)
        found.append(
            [symbols.name(row) for row in rows.tolist()]
            + [symbols.hashes(rows, of_kin=of_kin).tolist() for of_kin in (False, True)]
            + [symbols.begin_with((b"_ZTV", b"_ZTC"), rows).tolist(), symbols.holds(b".cold", rows).tolist()]
            + [symbols.mentions(b"f.cold"), symbols.mentions(b"g.cold")]
        )
    assert found[0] == found[1] and found[0][-2:] == [True, False]
    assert found[0][-4] == [name.startswith(("_ZTV", "_ZTC")) for name in ["", *names]]


def test_names_are_kept_once(tmp_path: Path) -> None:
    path = link(tmp_path / "a", "bfd", compile_object("int main() { return 0; }", "-g"))
    with Image.open(path) as image:
        assert image.symbols.name(image.symbols.count - 1)
        (_, whole), *more = image.symbols.strings.pieces()
        kept = image.symbols.strings._contents.in_memory
        assert not more and kept is not None and kept.obj is whole  # not in the memory of the file, too
