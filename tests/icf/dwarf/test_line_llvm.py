"""Rows of real programs are those of llvm-dwarfdump, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from icf.dwarf.line import LineProgram, LineSections, RowFlag, scan_all
from tests.support.toolchain import LINKERS, link, run, tool

SOURCE = """
#include <vector>
struct Item { int weight; Item *next; };
static int weight(const Item &item) { return item.weight; }
static int heavy(const Item &item) { return item.weight; }
int total(std::vector<Item> &items) {
  int sum = 0;
  for (const Item &item : items) {
    sum += weight(item);
    for (Item *next = item.next; next; next = next->next) sum ^= heavy(*next);
  }
  items.push_back({sum, nullptr});
  return sum;
}
"""
MAIN = """
#include <vector>
struct Item { int weight; Item *next; };
int total(std::vector<Item> &items);
int main(int argc, char **argv) {
  std::vector<Item> items;
  for (int i = 0; i < argc; i++) items.push_back({i, nullptr});
  return total(items) & 63;
}
"""
Row = tuple[int, int, int, int, int]


def llvm_rows(image: Path) -> dict[int, list[Row]]:
    """Offset of the unit -> (address, line, column, file, flags) of each row."""
    tables: dict[int, list[Row]] = {}
    rows: list[Row] = []
    for text in run(tool("llvm-dwarfdump"), "--debug-line", image).stdout.splitlines():
        if text.startswith("debug_line["):
            rows = tables[int(text[11:-1].strip("]"), 16)] = []
        elif text.startswith("0x"):
            # Address Line Column File ISA Discriminator OpIndex Flags
            address, line, column, file_idx, _, _, _, *names = text.split()
            flags = sum(RowFlag[name.upper()] for name in names)
            rows.append((int(address, 16), int(line), int(column), int(file_idx), int(flags)))
    return tables


def our_rows(program: LineProgram) -> list[Row]:
    columns = (program.address, program.line, program.column, program.file_idx, program.flags)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("compiler", "flags", "linker"),
    [
        ("g++", "-gdwarf-2 -gstrict-dwarf", "bfd"),
        ("g++", "-gdwarf-3 -O1", "gold"),
        ("g++", "-gdwarf-4", "gold"),
        ("g++", "-gdwarf-5", "lld"),
        ("g++", "-gdwarf-5 -gdwarf64", "gold"),
        ("clang++", "-gdwarf-2", "lld"),
        ("clang++", "-gdwarf-4", "mold"),
        ("clang++", "-gdwarf-5", "lld"),
        ("clang++", "-gdwarf-5 -gdwarf64", "lld"),
        ("clang++", "-gdwarf-5 -flto", "lld"),
        ("aarch64-linux-gnu-g++", "-gdwarf-5", "lld"),
    ],
)
def test_rows_are_those_of_llvm_dwarfdump(tmp_path: Path, compiler: str, flags: str, linker: str) -> None:
    assert linker in LINKERS
    objects = []
    for name, source in (("total", SOURCE), ("main", MAIN)):
        path = tmp_path / f"{name}.cpp"
        path.write_text(source)
        objects.append(path.with_suffix(".o"))
        run(tool(compiler), "-O2", "-ffunction-sections", *flags.split(), "-c", path, "-o", objects[-1])
    icf = [] if linker == "bfd" else ["-Wl,--icf=all"]
    arch = "aarch64" if compiler.startswith("aarch64") else "x86_64"
    image = link(tmp_path / "a.out", linker, *objects, "-Wl,--gc-sections", *icf, arch=arch)
    with image.open("rb") as file:
        elf = ELFFile(file)
        line, line_str, str_ = (
            section.data() if (section := elf.get_section_by_name(name)) else b""
            for name in (".debug_line", ".debug_line_str", ".debug_str")
        )
        units = [
            (unit["DW_AT_stmt_list"].value, unit["DW_AT_name"].value.decode())
            for cu in elf.get_dwarf_info().iter_CUs()
            if "DW_AT_stmt_list" in (unit := cu.get_top_DIE().attributes)
        ]
    expected = llvm_rows(image)
    programs = scan_all(LineSections(line, line_str, str_, str(image)), list(expected), threads=2)
    for program, rows in zip(programs, expected.values(), strict=True):
        assert isinstance(program, LineProgram)
        assert our_rows(program) == rows
    assert sum(map(len, expected.values())) > 60
    of_unit = dict(zip(expected, programs, strict=True))
    for stmt_list, name in units:
        program = of_unit[stmt_list]
        assert isinstance(program, LineProgram)
        assert any(path.endswith(Path(name).name) for path in program.files)
