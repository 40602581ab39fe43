"""Where a walk along frame pointers finds the caller: rows of real programs, by what their code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.dwarf.cfi.frames import CallFrames
from icf.elf.image import Image
from icf.elf.types import Machine
from tests.support.toolchain import run, tool
from unwind.walk.frame_pointer import has_frame

SOURCE = """
    .globl early, plain, none
    .text
early:                              # returns before it has a frame
    .cfi_startproc
    test %rdi, %rdi
    je 1f
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
in_early:
    call plain
    pop %rbp
    .cfi_def_cfa %rsp, 8
1:
    ret
    .cfi_endproc
plain:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
in_plain:
    pop %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
none:                               # has a base of its own in rbp, and does not save the caller's there
    .cfi_startproc
    mov %rsp, %rbp
    .cfi_def_cfa %rbp, 8
in_none:
    ret
    .cfi_endproc
"""


def test_rows_of_x86_64(tmp_path: Path) -> None:
    (tmp_path / "a.s").write_text(SOURCE)
    run(tool("gcc"), "-shared", "-nostdlib", "a.s", "-o", "a.so", folder=tmp_path)
    symbols = run(tool("nm"), "a.so", folder=tmp_path).stdout.splitlines()
    at = {line.split()[-1]: int(line.split()[0], 16) for line in symbols}
    with Image.open(str(tmp_path / "a.so")) as image:
        frames = CallFrames(image)
        found = {}
        for name in ("early", "in_early", "plain", "in_plain", "none", "in_none"):
            row = frames.row_at(at[name])
            assert row is not None
            found[name] = has_frame(row, Machine.X86_64)
    assert [name for name, has in found.items() if has] == ["in_early", "in_plain"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_function_that_returns_early_has_a_frame_where_it_calls(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int call(int); int early(int n) { if (!n) return 3; return call(n) + call(n + 1); }")
    options = ["-O2", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-nostdlib"]
    run(tool(compiler), *options, "a.c", "-o", "a.so", folder=tmp_path)
    code = run(tool("objdump"), "-d", "--no-show-raw-insn", "--disassemble=early", "a.so", folder=tmp_path).stdout
    calls = [int(line.split(":")[0], 16) for line in code.splitlines() if "call " in line]
    with Image.open(str(tmp_path / "a.so")) as image:
        rows = [CallFrames(image).row_at(each) for each in calls]
        assert len(rows) == 2 and all(row is not None and has_frame(row, Machine.X86_64) for row in rows)
