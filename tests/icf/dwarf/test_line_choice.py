"""`choose_sequence`: the member's own sequence among those at one body, or None; in bytes and after real links."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from icf.dwarf.line import LineProgram, LineSections
from icf.dwarf.line_choice import choose_sequence
from tests.support.line_lookup import lookup, read_line_program
from tests.support.line_tables import function, unit
from tests.support.toolchain import compile_object, link, run, tool

BODY = 0x1000
A_C, B_H = 1, 2  # /src/a.c (also number 0) and /src/inc/b.h
NO_PROLOGUE = b"\x0a"  # the first row has prologue_end: clang, and no row for the function's head


def program(*sequences: bytes) -> LineProgram:
    return read_line_program(LineSections(unit(b"".join(sequences)), b"", b"", "a.out"), 0)


def own(line: int, file_idx: int = A_C, vaddr: int = BODY, flags: bytes = b"") -> bytes:
    """A function whose rows are all its own."""
    return function(vaddr, [(0, file_idx, line), (4, file_idx, line + 1)], flags=flags)


@pytest.mark.parametrize("flags", [b"", NO_PROLOGUE])
@pytest.mark.parametrize(("decl_line", "chosen"), [(10, 0), (14, 1), (20, 2)])
def test_each_member_gets_the_sequence_with_its_lines(decl_line: int, chosen: int, flags: bytes) -> None:
    folded = program(own(10, flags=flags), own(15, flags=flags), own(20, flags=flags), own(30, vaddr=0x2000))
    assert choose_sequence(folded, BODY, A_C, decl_line, [10, 14, 20, 30]) == chosen
    assert choose_sequence(folded, BODY, 0, decl_line, [10, 14, 20, 30]) == chosen  # the same file by another number


def test_lines_count_in_the_members_file_only() -> None:
    folded = program(own(10, B_H), own(10, A_C))
    assert choose_sequence(folded, BODY, A_C, 10, [10]) == 1
    assert choose_sequence(folded, BODY, B_H, 10, [10]) == 0
    assert choose_sequence(folded, BODY, 99, 10, [10]) is None


def test_nothing_starts_at_the_address() -> None:
    assert choose_sequence(program(own(10)), 0x3000, A_C, 10, [10]) is None
    assert choose_sequence(program(own(10), own(12)), BODY + 4, A_C, 10, [10, 12]) is None


def test_the_only_sequence_is_the_members_if_none_is_dead() -> None:
    inlined = function(BODY, [(0, B_H, 5)], flags=NO_PROLOGUE)
    assert choose_sequence(program(inlined), BODY, A_C, 10, [10]) == 0
    assert choose_sequence(program(inlined), BODY + 4, A_C, 0, [10]) == 0  # several functions in one section
    assert choose_sequence(program(inlined, own(40, vaddr=0)), BODY, A_C, 10, [10, 40]) is None


def test_a_member_without_rows_of_its_own_is_not_given_the_next_function() -> None:
    forwarding = function(BODY, [(0, B_H, 5)], flags=NO_PROLOGUE)  # declared at 10, all of it inlined from b.h
    folded = program(forwarding, own(20, flags=NO_PROLOGUE))
    assert choose_sequence(folded, BODY, A_C, 10, [10, 20]) is None
    assert choose_sequence(folded, BODY, A_C, 20, [10, 20]) == 1


def test_a_function_that_inlines_the_member_gives_way_to_one_that_starts_in_it() -> None:
    inlining = function(BODY, [(0, A_C, 20), (4, A_C, 11)])
    assert choose_sequence(program(inlining, own(10)), BODY, A_C, 10, [10, 20]) == 1


def test_equal_ranks_with_different_rows_are_not_decided() -> None:
    one = function(BODY, [(0, A_C, 10), (4, B_H, 7)])
    other = function(BODY, [(0, A_C, 10), (4, B_H, 8)])
    assert choose_sequence(program(one, other), BODY, A_C, 10, [10]) is None
    assert choose_sequence(program(one, one), BODY, A_C, 10, [10]) == 0  # instances of one template


def test_a_discarded_copy_of_the_member_competes() -> None:
    inlining = function(BODY, [(0, A_C, 11), (4, A_C, 21)], flags=NO_PROLOGUE)
    assert choose_sequence(program(inlining, own(10, vaddr=0)), BODY, A_C, 10, [10, 20]) is None
    assert choose_sequence(program(own(20), own(10, vaddr=0)), BODY, A_C, 10, [10, 20]) is None
    assert choose_sequence(program(own(10), own(10, vaddr=0)), BODY, A_C, 10, [10, 20]) == 0


def test_without_a_declared_line_only_a_lone_sequence_will_do() -> None:
    assert choose_sequence(program(own(10)), BODY, A_C, 0, []) == 0
    assert choose_sequence(program(own(10), own(20)), BODY, A_C, 0, [10, 20]) is None


SOURCE = """
struct Shape { int width, height; int area() const; int size() const; int twice(); };
__attribute__((noinline, noipa))
int Shape::area() const { return width - height; }

static inline int difference(int left, int right)
{
  return left - right;
}
__attribute__((noinline, noipa)) int
Shape::size() const
{
  return difference(width, height);
}

template <class T> __attribute__((noinline, noipa)) T first(const T *values)
{
  return values[0] + 1;
}

__attribute__((noinline, noipa))
int long_one(int *out) {
  for (int i = 0; i < out[0]; i++)
    out[i] = difference(out[i], 3);
  return 1;
}

__attribute__((noinline, noipa)) int long_two(int *out) {
  for (int i = 0; i < out[0]; i++)
    out[i] = difference(out[i], 3);
  return 1;
}

int main(int argc, char **argv) {
  Shape shape{argc, argc};
  long a = 3;
  long long b = 4;
  return shape.area() + shape.size() + first(&a) + first(&b) + long_one(&argc) + long_two(&argc);
}
"""
# decl_line of each function that folds
FOLDED = {
    "_ZNK5Shape4areaEv": 4, "_ZNK5Shape4sizeEv": 11, "_Z5firstIlET_PKS0_": 16, "_Z5firstIxET_PKS0_": 16,
    "_Z8long_onePi": 22, "_Z8long_twoPi": 28,
}  # fmt: skip
FUNCTION_LINES: Sequence[int] = [4, 6, 11, 16, 22, 28, 34]


@pytest.mark.parametrize("dwarf", ["-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize("linker", ["gold", "lld", "mold"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_members_of_a_real_link_get_their_own_lines(tmp_path: Path, compiler: str, linker: str, dwarf: str) -> None:
    flags = ("-O2", "-g", dwarf, "-ffunction-sections", "-fno-unroll-loops", "-w")
    if compiler == "g++":
        source, obj = tmp_path / "program.cpp", tmp_path / "program.o"
        source.write_text(SOURCE)
        run(tool("g++"), *flags, "-fno-ipa-icf", "-fno-tree-vectorize", "-c", source, "-o", obj)
    else:
        obj = compile_object(SOURCE, *flags, "-fno-vectorize")
    image = link(tmp_path / "program", linker, obj, "-Wl,--icf=all")
    with image.open("rb") as file:
        elf = ELFFile(file)
        symtab = elf.get_section_by_name(".symtab")
        assert isinstance(symtab, SymbolTableSection)
        vaddr = {symbol.name: symbol["st_value"] for symbol in symtab.iter_symbols()}
        line, line_str, str_ = (
            section.data() if (section := elf.get_section_by_name(name)) else b""
            for name in (".debug_line", ".debug_line_str", ".debug_str")
        )
    table = read_line_program(LineSections(line, line_str, str_, str(image)), 0)
    decl_file = next(i for i, path in enumerate(table.files) if path.endswith("program.cpp"))
    for name, decl_line in FOLDED.items():
        body = vaddr.get(name) or vaddr[{"_Z5firstIlET_PKS0_": "_Z5firstIxET_PKS0_"}.get(name, "_Z5firstIlET_PKS0_")]
        assert len(table.sequences_at(body)) == 2, f"{name} did not fold"
        chosen = choose_sequence(table, body, decl_file, decl_line, FUNCTION_LINES)
        assert chosen is not None, name
        row = lookup(table, body, chosen)
        own_lines = range(decl_line, decl_line + 4)
        assert row is not None and (row.line in own_lines or name == "_ZNK5Shape4sizeEv" and row.line == 8), (name, row)
