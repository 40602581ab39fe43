"""Marks in objects: what other readers see of them, and what stays as it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icf.elf.objectfile import ObjectFile
from linkpass.distinct.marking import Mark, marked
from tests.support.toolchain import run, tool

SOURCE = """
    void other();
    template <class T> __attribute__((noinline)) int leaf(int n) { return n * n; }
    template <class T> __attribute__((noinline)) int calls(int n) { other(); return n + 1; }
    static __attribute__((noinline, used)) int local(int n) { return n * 3; }
    int use(int n) { return leaf<int>(n) + calls<int>(n) + local(n); }
"""
FUNCTIONS = ("_Z4leafIiEii", "_Z5callsIiEii", "_ZL5locali", "_Z3usei")


@pytest.mark.parametrize("compiler", ["g++", "clang++", "aarch64-linux-gnu-g++"])
def test_each_section_gets_its_mark_and_the_rest_stays(tmp_path: Path, compiler: str) -> None:
    (tmp_path / "a.cpp").write_text(SOURCE)
    path, copy = tmp_path / "a.o", tmp_path / "copy.o"
    run(tool(compiler), "-O1", "-g", "-ffunction-sections", "-c", "a.cpp", folder=tmp_path)
    given = ObjectFile.parse(memoryview(path.read_bytes()), "a.o")
    sections = {given.symbols.name(row): int(given.symbols.shndx[row]) for row in given.functions.tolist()}
    marks = {sections[name]: Mark(5 - idx) for idx, name in enumerate(FUNCTIONS)}
    marks[sections[FUNCTIONS[0]]] = Mark((1 << 62) - 1, 3)
    copy.write_bytes(b"".join(marked(given, marks)))
    found = ObjectFile.parse(memoryview(copy.read_bytes()), "copy.o")
    for section, mark in marks.items():
        first, *others = found.relocations_of(section).tolist()
        assert first == (0, 0, mark.symbol, mark.number) and others == given.relocations_of(section).tolist()
        holder = int(found.relocation_section[section])
        assert found.group[holder] == found.group[section] == given.group[section]
        assert found.section_name(holder) == f".rela{given.section_name(section)}"
    assert found.group[sections[FUNCTIONS[0]]] != 0
    for section in range(given.sections.count):
        if section not in given.group.tolist() and section not in given.relocation_section.tolist():
            same = bytes(found.contents(section)) == bytes(given.contents(section))
            assert same or section == given.sections.names_section
    for reader, options in ((tool("readelf"), "-aWg"), (tool("eu-elflint"), "--gnu-ld")):
        before, after = (run(reader, options, each, check=False) for each in (path, copy))
        problems = re.compile(r"(?i)error|warning|invalid|section \[.*")
        assert len(problems.findall(after.stderr)) <= len(problems.findall(before.stderr)), after.stderr


def test_an_object_with_more_sections_than_its_header_counts(tmp_path: Path) -> None:
    """With 0xff00 sections and more the count stands in the first section header."""
    count = 0xFF00 // 2 + 100
    lines = [
        f'.section .text.f{idx},"ax",@progbits\n.globl f{idx}\n.type f{idx},@function\nf{idx}: ret\n.size f{idx},1'
        for idx in range(2 * count)
    ]
    (tmp_path / "a.s").write_text("\n".join(lines) + "\n")
    run(tool("gcc"), "-c", "a.s", folder=tmp_path)
    given = ObjectFile.parse(memoryview((tmp_path / "a.o").read_bytes()), "a.o")
    row = int(given.functions[-1])
    section = int(given.symbols.shndx[row])
    (tmp_path / "copy.o").write_bytes(b"".join(marked(given, {section: Mark(7)})))
    found = ObjectFile.parse(memoryview((tmp_path / "copy.o").read_bytes()), "copy.o")
    assert found.sections.count == given.sections.count + 1 > 0xFF00
    assert found.relocations_of(section).tolist() == [(0, 0, 0, 7)]
    assert found.section_name(section) == given.section_name(section)
