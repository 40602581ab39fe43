"""What capstone sees in the functions of an image: the second opinion on calls and jumps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import capstone

from icf.elf.image import Image
from icf.elf.types import Machine
from tests.support.toolchain import lasting_folder, run, tool

_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
int main(int argc, char **argv) { qsort(argv, argc, sizeof *argv, compare); return printf("%s\\n", argv[0]); }
"""


@dataclass(frozen=True)
class Insn:
    """A call or jump."""

    start: int
    end: int
    is_call: bool
    target: int | None  # where it goes; None if a register or memory says it
    slot: int | None  # address of that memory if it is fixed

    @property
    def is_direct(self) -> bool:
        return self.target is not None


@cache
def static_program(arch: str) -> Path:
    """A program that is linked statically with the C library."""
    compiler = {"x86_64": ("gcc",), "aarch64": ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++")}[arch]
    directory = lasting_folder()
    (directory / "sort.c").write_text(_SOURCE)
    run(tool(*compiler), "-O2", "-static", directory / "sort.c", "-o", directory / "sort")
    return directory / "sort"


def instructions(image: Image) -> Iterator[Insn]:
    """The calls and jumps (jrcxz apart) of all functions that have a symbol with a size."""
    is_x86 = image.machine is Machine.X86_64
    if is_x86:
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    else:
        decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    symbols = image.symbols
    sizes: dict[int, int] = {}
    for row in symbols.functions.tolist():
        start, size_bytes = int(symbols.value[row]), int(symbols.size_bytes[row])
        sizes[start] = max(sizes.get(start, 0), size_bytes)
    for start, size_bytes in sizes.items():
        for at, length, mnemonic, operands in decoder.disasm_lite(bytes(image.read(start, size_bytes)), start):
            name = mnemonic.split()[-1]
            is_call = name == "call" if is_x86 else name in ("bl", "blr")
            is_jump = name[0] == "j" and "cx" not in name if is_x86 else name == "b" or name.startswith("b.")
            if is_call or is_jump:
                yield _insn(at, at + length, is_call, operands)


def _insn(start: int, end: int, is_call: bool, operands: str) -> Insn:
    target = slot = None
    text = operands.lstrip("#")
    if text.startswith(("0x", "-")) or text.isdigit():
        target = int(text, 0) % 2**64
    elif "[rip" in operands and ":" not in operands:
        slot = (end + int(operands.partition("[rip")[2].rstrip("]").replace(" ", "") or "0", 0)) % 2**64
    return Insn(start, end, is_call, target, slot)
