"""`.gnu_debugdata`: a program stripped as Fedora does it keeps all its functions; what breaks its rules is refused."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.elf.types import SHF_ALLOC, SHF_EXECINSTR, SHT_DYNSYM, SHT_NOBITS, Machine
from icf.errors import FormatError
from tests.support.elf import Elf, Part, Sym, symbol_parts
from tests.support.strip import strip_to_minidebug
from tests.support.toolchain import compile_object, link, run

PROGRAM = """
static int __attribute__((noinline)) hidden(int x) { return x * 3 + 1; }
extern "C" __attribute__((noinline)) int shown(int x) { return hidden(x) + 2; }
int main(int count, char **) { return shown(count); }
"""
TEXT = Part(".text", SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, vaddr=0x1000, size_bytes=64)


def functions(path: Path) -> dict[str, tuple[int, int, str]]:
    with Image.open(path) as image:
        symbols = image.symbols
        return {
            symbols.name(row): (
                int(symbols.value[row]),
                int(symbols.size_bytes[row]),
                image.sections[symbols.shndx[row]].name,
            )
            for row in symbols.functions.tolist()
        }


def test_a_stripped_program_keeps_its_functions(tmp_path: Path) -> None:
    path = link(tmp_path / "a", "bfd", compile_object(PROGRAM, "-O1", "-fPIE"), "-pie", "-rdynamic")
    whole = functions(path)
    run("strip", "-o", tmp_path / "bare", path)
    assert "shown" in functions(tmp_path / "bare") and "_ZL6hiddeni" not in functions(tmp_path / "bare")
    strip_to_minidebug(path)
    assert whole["_ZL6hiddeni"][2] == ".text" and functions(path) == whole
    with Image.open(path) as image:
        names = image.symbols.names(image.symbols.functions.tolist())
        assert len(names) == len(set(names)), "what both tables have is there once"


def stripped(tmp_path: Path, packed: bytes) -> Image:
    table, strings = symbol_parts([Sym("shown", 2, 1, 1, 0x1000, 8)], 3, ".dynsym")
    table.type, strings.name = SHT_DYNSYM, ".dynstr"
    text = Part(".text", flags=TEXT.flags, content=bytes(64), vaddr=0x1000)
    path = tmp_path / "stripped"
    path.write_bytes(Elf([text, Part(".gnu_debugdata", content=packed), table, strings]).build())
    return Image.open(path)


def mini(*symbols: Sym, machine: Machine = Machine.X86_64) -> bytes:
    # the section stands at another index than in the image
    parts = [Part(".gone", SHT_NOBITS, SHF_ALLOC, vaddr=0x8000, size_bytes=8), TEXT, *symbol_parts(list(symbols), 3)]
    return Elf(parts, machine=machine).build()


def test_the_tables_are_one_and_its_sections_those_of_the_image(tmp_path: Path) -> None:
    names = [Sym("hidden", 2, 0, 2, 0x1010, 8), Sym("shown", 2, 1, 2, 0x1000, 8), Sym("gone", 2, 0, 1, 0x8000, 8)]
    with stripped(tmp_path, lzma.compress(mini(*names))) as image:
        symbols = image.symbols
        assert symbols.names(range(symbols.count)) == ["", "hidden", "shown", "gone"]
        assert symbols.names(symbols.functions.tolist()) == ["shown", "hidden"]
        assert symbols.shndx[:3].tolist() == [0, 1, 1] and not symbols.is_defined[3]


def test_dynamic_symbols_that_it_leaves_out_are_there(tmp_path: Path) -> None:
    with stripped(tmp_path, lzma.compress(mini(Sym("hidden", 2, 0, 2, 0x1010, 8)))) as image:
        assert image.symbols.names(image.symbols.functions.tolist()) == ["shown", "hidden"]


@pytest.mark.parametrize(
    ("packed", "rule"),
    [
        (b"no xz at all", "xz data is corrupt"),
        (lzma.compress(mini())[:-20], "xz data has no end"),
        (lzma.compress(bytes(20 << 20)), r"inflates to more than \d+ bytes"),
        (lzma.compress(b"no ELF"), "ELF header"),
        (lzma.compress(mini(machine=Machine.AARCH64)), "is for AARCH64, the image for X86_64"),
        (lzma.compress(Elf([TEXT]).build()), "has no symbol table"),
        (lzma.compress(mini(), lzma.FORMAT_ALONE), "xz data is corrupt"),
    ],
)
def test_what_is_no_such_table_is_refused(packed: bytes, rule: str, tmp_path: Path) -> None:
    with stripped(tmp_path, packed) as image, pytest.raises(FormatError, match=rule) as refused:
        _ = image.symbols
    assert "stripped" in str(refused.value) and ".gnu_debugdata" in str(refused.value)


def test_without_the_section_the_dynamic_symbols_are_all(tmp_path: Path) -> None:
    path = link(tmp_path / "a.so", "bfd", compile_object(PROGRAM, "-O1", "-fPIC"), "-shared", "-Wl,-s")
    with Image.open(path) as image:
        assert image.symbols is image.dynamic_symbols
