"""What calls of `qsort` and its kind are given: in programs of each compiler, and where code says nothing certain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from icf.code.callbacks import called_argument, find_given, is_passed
from icf.elf.image import Image
from tests.support.toolchain import linker_options, run, tool

SOURCE = """
    #include <search.h>
    #include <stdlib.h>
    typedef int compare(const void *, const void *);
    int by_age(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
    int by_size(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }
    int by_weight(const void *a, const void *b, void *c) { return a < b; }
    volatile int total;
    void ages(int *p) { qsort(p, 2, 4, by_age); total = 1; }
    void sizes(int *p) { qsort(p, 2, 4, by_size); total = 2; }
    void weights(int *p) { qsort_r(p, 2, 4, by_weight, p); total = 3; }
    void found(int *p) { size_t n = 2; total = lfind(p, p, &n, 4, by_size) != 0; }
    void conditional(int *p, int n) { if (n) { total = 1; qsort(p, n, 4, by_age); } total = 4; }
    void passed(int *p, compare *by) { qsort(p, 2, 4, by); total = 5; }
    void joined(int *p, int n) { qsort(p, 2, 4, n ? by_age : by_size); total = 6; }
    compare *volatile stored = by_age;
    void loaded(int *p) { qsort(p, 2, 4, stored); total = 7; }
    void jumps(int *p) { qsort(p, 2, 4, by_age); }
    int main(int argc, char **argv) { int p[2]; ages(p); return total; }
"""
CERTAIN = [("ages", "by_age"), ("conditional", "by_age"), ("found", "by_size"), ("sizes", "by_size")]
CERTAIN += [("weights", "by_weight")]


def given(path: Path) -> list[tuple[str, str]]:
    """Return each function that makes such a call, and what it passes."""
    with Image.open(str(path)) as image:
        symbols = image.symbols
        rows = symbols.functions[symbols.size_bytes[symbols.functions] > 0]
        rows = rows[np.argsort(symbols.value[rows], kind="stable")]
        starts = symbols.value[rows]
        ends = starts + symbols.size_bytes[rows]
        names = dict(zip(starts.tolist(), symbols.names(rows.tolist()), strict=True))
        found = []
        for each in find_given(image, starts, ends):
            row = int(np.searchsorted(starts, each.call_end, side="right")) - 1
            found.append((names[int(starts[row])], names[each.target]))
            assert is_passed(image, each.call_end, each.target)
            assert not is_passed(image, each.call_end + 1, each.target)
            assert not is_passed(image, each.formed, each.target)
        return sorted(found)


def compiled(folder: Path, compiler: list[str], *flags: str, source: str = SOURCE) -> Path:
    (folder / "a.c").write_text(f"#define _GNU_SOURCE\n{source}")
    run(*compiler, "-ffunction-sections", "-w", *flags, "a.c", "-o", "a", folder=folder)
    return folder / "a"


@pytest.mark.parametrize(
    "flags", [("-O2",), ("-O1",), ("-Os",), ("-O2", "-fPIC", "-Wl,-Bsymbolic", "-shared")], ids=str
)
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_what_is_certain_is_found(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    found = given(compiled(tmp_path, [tool(compiler)], *flags, "-fno-semantic-interposition"))
    assert [each for each in found if each[0] in dict(CERTAIN)] == CERTAIN
    assert {caller for caller, _ in found}.isdisjoint({"passed", "joined", "loaded"})


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_without_optimization(compiler: str, tmp_path: Path) -> None:
    assert {*CERTAIN, ("ages", "by_age")} <= {*given(compiled(tmp_path, [tool(compiler)], "-O0"))} | {
        ("jumps", "by_age")
    }


def test_calls_by_the_got(tmp_path: Path) -> None:
    assert {*CERTAIN} <= {*given(compiled(tmp_path, [tool("gcc")], "-O2", "-fno-plt"))}


@pytest.mark.parametrize("linker", ["lld", "mold", "bfd"])
def test_aarch64(linker: str, tmp_path: Path) -> None:
    tool("aarch64-linux-gnu-gcc")  # for its libraries
    command = [tool("clang-19"), "--target=aarch64-linux-gnu"]
    options = ["-fuse-ld=bfd"] if linker == "bfd" else linker_options(linker, tool(f"ld.{linker}"))
    found = given(compiled(tmp_path, command, "-O2", *options))
    assert [each for each in found if each[0] in dict(CERTAIN)] == CERTAIN


ASSEMBLY = """
    .intel_syntax noprefix
    .text
    .globl main, f, g, by, other
    .type main, @function
    .type f, @function
    .type by, @function
    .type other, @function
    .type g, @function
main: xor eax, eax
    ret
    .size main, . - main
by: mov eax, 1
    ret
    .size by, . - by
other: mov eax, 2
    ret
    .size other, . - other
g:  {elsewhere}
    ret
    .size g, . - g
f:  push rbx
    {code}
    call qsort@plt
    pop rbx
    ret
    .size f, . - f
    .section .rodata
table: .long inside - table, inside - table
    .section .note.GNU-stack,"",@progbits
"""


@pytest.mark.parametrize(
    ("code", "elsewhere", "is_found"),
    [
        ("lea rcx, by[rip]; mov edx, 8", "", True),
        ("lea rbx, by[rip]; mov rcx, rbx", "", True),
        ("lea rcx, by[rip]; test edi, edi; je 1f; mov esi, 1; 1: mov edx, 8", "", False),
        ("lea rcx, by[rip]; test edi, edi; je 1f; mov edx, 8; jmp 2f; 1: ud2; 2:", "", False),
        ("lea rcx, other[rip]; test edi, edi; je 1f; lea rcx, by[rip]; 1:", "", False),
        ("test edi, edi; je 1f; ud2; 1: lea rcx, by[rip]; mov edx, 8", "", True),
        ("lea rcx, by[rip]; call main", "", False),
        ("lea rbx, by[rip]; call main; mov rcx, rbx", "", False),
        ("lea rcx, by[rip]; add rcx, 1", "", False),
        ("lea rcx, by[rip]; mov cl, 3", "", False),
        ("lea rcx, by[rip]; test edi, edi; cmove rcx, rax", "", False),
        ("lea ecx, by[rip]", "", False),
        ("lea rcx, by[rip]; xchg rcx, rax", "", False),
        ("push rcx; lea rcx, by[rip]; pop rcx", "", False),
        ("lea rcx, by[rip]; mov edx, 8; back: mov esi, 1", "lea rcx, other[rip]; jmp back", False),
        ("lea rcx, by[rip]; mov edx, 8; back: mov esi, 1", "nop; .byte 0xe9; .long back - . - 4", False),
        (
            "lea rcx, by[rip]; inside: mov edx, 8",
            "lea rax, table[rip]; movsxd rdx, [rax]; add rax, rdx; jmp rax",
            False,
        ),
        ("lea rcx, by[rip]; inside: mov edx, 8", "lea rcx, other[rip]; call inside", False),
        (
            "cmp edi, 1; ja 1f; mov edi, edi; lea rax, table[rip]; movsxd rdx, [rax + 4 * rdi]; add rax, rdx; jmp rax;"
            " 1: lea rcx, by[rip]; inside: mov edx, 8",
            "",
            False,
        ),
        ("jmp rax; lea rcx, by[rip]; inside: mov edx, 8", "", False),
    ],
)  # fmt: skip
def test_code_by_hand(code: str, elsewhere: str, is_found: bool, tmp_path: Path) -> None:
    assembler = tool("gcc")
    text = ASSEMBLY.format(code=code, elsewhere=elsewhere)
    if "inside:" not in text:
        text = text.replace("main: xor", "inside: main: xor")
    (tmp_path / "a.s").write_text(text)
    run(assembler, "a.s", "-o", "a", folder=tmp_path)
    assert given(tmp_path / "a") == ([("f", "by")] if is_found else [])


def test_names_with_versions() -> None:
    assert [called_argument(name) for name in ("qsort", "qsort@GLIBC_2.2.5", "bsearch", "free", "")] == [
        3,
        3,
        4,
        -1,
        -1,
    ]
