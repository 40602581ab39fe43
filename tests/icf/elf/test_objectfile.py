"""Objects as columns: every section, symbol, relocation and group against pyelftools, and damaged ones refused."""

from __future__ import annotations

import time
from pathlib import Path
from struct import pack

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from icf.elf.headers import is_bitcode
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
from icf.errors import FormatError, UnsupportedError
from tests.support.elf import Elf, Part, Sym, symbol_parts
from tests.support.toolchain import compile_object, run, tool

PROGRAM = """
int outside(int);
static int __attribute__((noinline)) local_one(int x) { return outside(x) * 3; }
template <class T> T __attribute__((noinline)) twice(T x) { return static_cast<T>(outside(static_cast<int>(x))) * 2; }
struct Base { virtual int get(); virtual ~Base(); };
inline int Base::get() { return 7; }
Base::~Base() {}
int visible(int x) { return local_one(x) + twice(x) + static_cast<int>(twice(static_cast<long>(x))); }
int data = 3, zero;
"""
CODE = SHF_ALLOC | SHF_EXECINSTR


def compiled(compiler: str, tmp_path: Path, *flags: str) -> memoryview:
    if compiler == "g++":
        source = tmp_path / "program.cpp"
        source.write_text(PROGRAM)
        run(tool("g++"), *flags, "-ffunction-sections", "-O1", "-g", "-c", source, "-o", tmp_path / "program.o")
        return memoryview((tmp_path / "program.o").read_bytes())
    arch = "aarch64" if compiler == "aarch64" else "x86_64"
    return memoryview(compile_object(PROGRAM, *flags, "-ffunction-sections", "-O1", "-g", arch=arch).read_bytes())


@pytest.mark.parametrize("compiler", ["clang++", "g++", "aarch64"])
def test_everything_is_as_pyelftools_reads_it(compiler: str, tmp_path: Path) -> None:
    buffer = compiled(compiler, tmp_path)
    obj = ObjectFile.parse(buffer, "program.o")
    path = tmp_path / "copy.o"
    path.write_bytes(buffer)
    with path.open("rb") as file:
        oracle = ELFFile(file)
        assert obj.machine is (Machine.AARCH64 if compiler == "aarch64" else Machine.X86_64)
        assert len(obj.sections) == obj.sections.count == oracle.num_sections()
        symtab = oracle.get_section_by_name(".symtab")
        assert isinstance(symtab, SymbolTableSection)
        groups: dict[int, str] = {}
        for index, theirs in enumerate(oracle.iter_sections()):
            header, sections = theirs.header, obj.sections
            assert obj.section_name(index) == theirs.name
            assert (sections.name_offset[index], sections.flags[index]) == (header.sh_name, header.sh_flags)
            assert (sections.offset[index], sections.size_bytes[index]) == (header.sh_offset, header.sh_size)
            assert (sections.link[index], sections.info[index]) == (header.sh_link, header.sh_info)
            assert sections.entsize[index] == header.sh_entsize
            assert index in sections.named(theirs.name)
            if header.sh_type == "SHT_GROUP":
                words = np.frombuffer(theirs.data(), "<u4")
                groups |= dict.fromkeys(words[1:].tolist(), symtab.get_symbol(header.sh_info).name)
            if header.sh_type not in ("SHT_NOBITS", "SHT_NULL"):
                assert obj.contents(index) == theirs.data()
            if isinstance(theirs, RelocationSection):
                entries = obj.relocations_of(header.sh_info)
                assert entries.tolist() == [
                    (entry["r_offset"], entry["r_info_type"], entry["r_info_sym"], entry["r_addend"])
                    for entry in theirs.iter_relocations()
                ]
        assert {index: obj.symbol_name(row) for index, row in enumerate(obj.group_symbol.tolist()) if row} == groups
        assert groups
        functions = []
        for row, symbol in enumerate(symtab.iter_symbols()):
            assert obj.symbols.name(row) == symbol.name or symbol["st_info"]["type"] == "STT_SECTION"
            assert obj.symbols.value[row] == symbol["st_value"]
            if symbol["st_info"]["type"] == "STT_FUNC" and isinstance(symbol["st_shndx"], int):
                functions.append((symbol["st_shndx"], symbol["st_value"], row))
        assert obj.functions.tolist() == [row for _, _, row in sorted(functions)]
        assert {"_Z7visiblei", "_ZL9local_onei", "_Z5twiceIiET_S0_"} <= {obj.symbol_name(row) for row in obj.functions}
    assert obj.source_file == "program.cpp"
    assert not obj.has_lto_code and not is_bitcode(buffer)


@pytest.mark.parametrize("compiler", ["clang++", "g++"])
@pytest.mark.parametrize("shift", range(8))
def test_relocations_of_many_sections_are_those_of_each(compiler: str, shift: int, tmp_path: Path) -> None:
    buffer = bytes(shift) + compiled(compiler, tmp_path)  # as in an archive, whose members are not aligned
    obj = ObjectFile.parse(memoryview(buffer)[shift:], "program.o")
    for sections in (np.flatnonzero(obj.sections.is_code), np.arange(obj.sections.count), np.arange(0)):
        owners, entries = obj.relocations_in(sections)
        each = [(section, entry) for section in sections.tolist() for entry in obj.relocations_of(section).tolist()]
        assert list(zip(owners.tolist(), entries.tolist(), strict=True)) == each


@pytest.mark.parametrize("flag", ["-gz=zlib", "-gz=zstd"])
def test_compressed_sections_are_inflated(flag: str, tmp_path: Path) -> None:
    plain = ObjectFile.parse(compiled("clang++", tmp_path), "plain.o")
    packed = ObjectFile.parse(compiled("clang++", tmp_path, flag), "packed.o")
    for name in (".debug_info", ".debug_str", ".debug_abbrev"):
        [theirs], [ours] = plain.sections.named(name).tolist(), packed.sections.named(name).tolist()
        assert len(packed.contents(ours)) == len(plain.contents(theirs))
        assert packed.contents(ours) is packed.contents(ours) or not packed.sections.flags[ours] & SHF_COMPRESSED


def test_lto_objects_are_told(tmp_path: Path) -> None:
    bitcode = compiled("clang++", tmp_path, "-flto")
    assert is_bitcode(bitcode)
    with pytest.raises(FormatError, match=r"lto\.o: ELF header\+0x0: not an ELF file: starts with 4243c0de"):
        ObjectFile.parse(bitcode, "lto.o")
    assert ObjectFile.parse(compiled("g++", tmp_path, "-flto", "-ffat-lto-objects"), "fat.o").has_lto_code
    slim = ObjectFile.parse(compiled("g++", tmp_path, "-flto"), "slim.o")
    assert slim.has_lto_code and len(slim.functions) == 0


@pytest.mark.parametrize("assembler", ["gcc", "clang"])
def test_more_sections_than_16_bits_can_count(assembler: str, tmp_path: Path) -> None:
    count = 40_000  # with their relocation sections, 80,000
    source = tmp_path / "many.s"
    source.write_text(
        "".join(
            f'.section .text.f{index},"axG",@progbits,f{index},comdat\n.weak f{index}\n.type f{index},@function\n'
            f"f{index}: call f{(index + 1) % count}\nret\n.size f{index},.-f{index}\n"
            for index in range(count)
        )
    )
    run(tool(assembler), "-c", source, "-o", tmp_path / "many.o")
    buffer = memoryview((tmp_path / "many.o").read_bytes())
    start_s = time.process_time()
    obj = ObjectFile.parse(buffer, "many.o")
    functions = obj.functions
    sections = obj.symbols.shndx[functions].astype(np.int64)
    owners, entries = obj.relocations_in(sections)
    group_rows = obj.group_symbol[sections]
    assert time.process_time() - start_s < 0.5  # 20 ms; seconds if a section were an object
    assert obj.sections.count > 3 * count and len(functions) == len(entries) == len(group_rows) == count
    assert int(sections.max()) > 0xFFFF and np.array_equal(owners, sections)
    names = obj.symbols.names(functions)
    callees = obj.symbols.names(entries["symbol"])
    for index in (0, 1, 30_000, count - 1):
        assert names[index] == f"f{index}" and callees[index] == f"f{(index + 1) % count}"
        assert obj.section_name(int(sections[index])) == f".text.f{index}"
        assert obj.symbols.name(int(group_rows[index])) == f"f{index}"
        assert obj.relocations_of(int(sections[index])).tolist() == entries[index : index + 1].tolist()
        assert len(obj.contents(int(sections[index]))) == 6


# Section 1 is the symbol table, 2 its strings, 3 .text.f, 4 its relocations, 5 the group of both.
SYMBOLS = [
    Sym("file.c", type=4, shndx=0xFFF1),
    Sym("", type=3, shndx=3),
    Sym("f", type=2, bind=1, shndx=3, value=4, size_bytes=2),
    Sym("ifunc", type=10, bind=1, shndx=3, value=0),
    Sym("undefined", type=2, bind=1),
    Sym("in_data", type=2, bind=1, shndx=2),
]
RELAS = pack("<QIIq", 1, 4, 5, -4) + pack("<QIIq", 6, 2, 2, (1 << 63) - 1)


def small(**changes: object) -> Elf:
    """A sound object; `changes` are `part__field=value`."""
    parts = {
        "symtab": symbol_parts(SYMBOLS, 1)[0],
        "strtab": symbol_parts(SYMBOLS, 1)[1],
        "text": Part(".text.f", flags=CODE, content=b"\xe8\0\0\0\0\xc3"),
        "rela": Part(".rela.text.f", SHT_RELA, content=RELAS, link=1, info=3, align=8, entsize=24),
        "group": Part(".group", SHT_GROUP, content=pack("<III", 1, 3, 4), link=1, info=3, align=4, entsize=4),
        "bss": Part(".bss", SHT_NOBITS, SHF_ALLOC, size_bytes=1 << 62),
    }
    for change, value in changes.items():
        part, _, field = change.partition("__")
        setattr(parts[part], field, value)
    return Elf(list(parts.values()), type=ET_REL)


def parse(elf: Elf) -> ObjectFile:
    return ObjectFile.parse(memoryview(elf.build()), "a.o")


def read_all(obj: ObjectFile) -> None:
    for section in range(obj.sections.count):
        obj.section_name(section)
        obj.contents(section)
        obj.relocations_of(section)
    for row in range(obj.symbols.count):
        obj.symbol_name(row)
    assert len(obj.functions) >= 0 and len(obj.group_symbol) == obj.sections.count and obj.source_file is not None


@pytest.mark.parametrize("escaped_counts", [False, True])
def test_a_small_object_is_read_whole(escaped_counts: bool) -> None:
    elf = small()
    elf.escaped_counts = escaped_counts
    obj = parse(elf)
    read_all(obj)
    assert obj.sections.count == 8 and obj.source_file == "file.c"
    assert [obj.symbol_name(row) for row in obj.functions] == ["ifunc", "f"]
    assert obj.symbol_name(2) == ".text.f"  # a section symbol
    assert bytes(obj.contents(3)) == b"\xe8\0\0\0\0\xc3" and len(obj.contents(6)) == 0
    assert obj.relocations_of(3).tolist() == [(1, 4, 5, -4), (6, 2, 2, (1 << 63) - 1)]
    assert len(obj.relocations_of(1)) == 0
    assert obj.group_symbol.tolist() == [0, 0, 0, 3, 3, 0, 0, 0] and obj.symbol_name(3) == "f"
    assert obj.sections.named(".text.f").tolist() == [3]  # its name is the end of another one's, too
    assert obj.sections.named(".text").tolist() == obj.sections.named("").tolist()[1:] == []


def test_a_group_that_is_not_comdat_has_no_signature() -> None:
    assert not parse(small(group__content=pack("<III", 0, 3, 4))).group_symbol.any()


def test_an_object_without_sections_is_empty() -> None:
    buffer = bytearray(small().build())
    buffer[40:48] = bytes(8)  # e_shoff
    obj = ObjectFile.parse(memoryview(buffer), "a.o")
    assert obj.sections.count == obj.symbols.count == len(obj.functions) == 0
    assert obj.relocations_in(np.arange(0))[1].tolist() == [] and obj.sections.named(".text").tolist() == []


def test_every_truncation_is_refused() -> None:
    content = memoryview(small().build())
    for size_bytes in range(len(content)):
        with pytest.raises(FormatError, match=r"a\.o: (ELF|section) headers?\+0x[0-9a-f]+: "):
            ObjectFile.parse(content[:size_bytes], "a.o")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"text__size_bytes": 1 << 40},
            r"section headers\+0x\w+: section 3 of 1099511627776 bytes at 0x\w+ ends outside",
        ),
        ({"text__size_bytes": (1 << 64) - 1}, r"section 3 of 18446744073709551615 bytes"),
        ({"rela__info": 99}, r"relocations are for section 99, there are 8"),
        ({"rela__entsize": 16}, r"relocation section has 48 bytes in entries of 16, must be entries of 24"),
        ({"rela__content": RELAS[:-1]}, r"relocation section has 47 bytes in entries of 24"),
        ({"rela__link": 2}, r"relocation section has sh_link 2, the symbol table is 1"),
        ({"rela__size_bytes": 24 << 40}, r"section 4 of 26388279066624 bytes"),
        (
            {"rela__content": pack("<QIIq", 0, 0, 7, 0)},
            r"\.rela\.text\.f\+0x0: relocation names symbol 7, its table has 7",
        ),
        ({"group__content": pack("<II", 1, 8)}, r"group has section 8 as a member, there are 8"),
        ({"group__content": b"\1\0\0"}, r"group has 3 bytes and symbol 3 of table 1, must be 4-byte words"),
        ({"group__info": 7}, r"group has 12 bytes and symbol 7 of table 1, must be .* the 7 symbols of table 1"),
        ({"group__size_bytes": 1 << 40}, r"section 5 of 1099511627776 bytes"),
        ({"symtab__entsize": 16}, r"symbol table has 168 bytes in entries of 16, must be entries of 24"),
        ({"symtab__link": 3}, r"symbol table has sh_link 3: no string table"),
        ({"symtab__link": 77}, r"symbol table has sh_link 77: no string table"),
        ({"strtab__content": b"\0file.c"}, r"\.symtab\+0x0: symbol name at 0x\w+ has no end in the string table"),
    ],
)
def test_damage_is_refused_with_its_place(changes: dict[str, object], message: str) -> None:
    obj = parse(small(**changes))
    with pytest.raises(FormatError, match=r"a\.o: .*" + message):
        read_all(obj)
    if "rela__content" not in changes:  # where one bad entry is named by its own section
        with pytest.raises(FormatError, match=message):
            obj.relocations_in(np.arange(obj.sections.count))
            read_all(obj)


def test_a_bad_section_leaves_the_others_readable() -> None:
    obj = parse(small(rela__size_bytes=1 << 40, group__info=99))
    assert len(obj.contents(3)) == 6 and len(obj.functions) == 2


def test_sections_that_overlap_are_not_copied_out() -> None:
    """Many headers for the same bytes would make a small file into gigabytes."""
    elf = small()
    elf.parts += [Part(f"{index}", SHT_GROUP, content=bytes(4), link=1, info=3) for index in range(200)]
    buffer = bytearray(elf.build())
    shoff = int.from_bytes(buffer[40:48], "little")
    for section in range(5, 5 + 202):
        if section != 6:
            buffer[shoff + section * 64 + 24 : shoff + section * 64 + 40] = pack("<QQ", 0, len(buffer) // 4 * 4)
    with pytest.raises(FormatError, match=r"sections of one kind have \d+ bytes, the file has \d+"):
        print(ObjectFile.parse(memoryview(buffer), "a.o").group_symbol)


def test_a_second_relocation_section_is_refused() -> None:
    elf = small()
    elf.parts.append(Part(".rela.again", SHT_RELA, content=RELAS, link=1, info=3, align=8, entsize=24))
    with pytest.raises(FormatError, match="section 3 has a second relocation section"):
        parse(elf).relocations_of(1)


def test_relocations_without_addends_are_not_handled() -> None:
    obj = parse(small(rela__type=9))
    with pytest.raises(UnsupportedError, match=r"\.rela\.text\.f: section type 0x9 is not handled, SHT_RELA \(4\) is"):
        obj.relocations_of(3)


def test_wide_section_indices_come_from_their_own_table() -> None:
    symbols = [Sym("f", 2, 1, 0xFFFF, 0)]
    parts = [*symbol_parts(symbols, 1), Part(".text", flags=CODE, content=b"\xc3")]
    wide = Part(".symtab_shndx", SHT_SYMTAB_SHNDX, content=pack("<II", 0, 3), link=1, entsize=4)
    assert parse(Elf([*parts, wide], type=ET_REL)).functions.tolist() == [1]
    with pytest.raises(FormatError, match=r"symbol with SHN_XINDEX has no entry"):
        print(parse(Elf(parts, type=ET_REL)).functions)
    wide.content = pack("<II", 0, 100)
    with pytest.raises(FormatError, match=r"a\.o: \.symtab\+0x18: symbol lies in section 100, there are 6"):
        print(parse(Elf([*parts, wide], type=ET_REL)).functions)


def test_a_linked_image_is_no_object() -> None:
    with pytest.raises(UnsupportedError, match=r"a\.o: ELF type 3, needs a relocatable object \(1\)"):
        parse(Elf([]))
