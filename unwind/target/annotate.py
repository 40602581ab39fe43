"""Disassembles machine code that a program has just made, with the names of what it calls: for compilers at run time.

import unwind

with unwind.open_process() as symbolizer:
    print(unwind.annotate(code, address, symbolizer))

0x7f19fdf1d2e0..0x7f19fdf1d2f5, 21 bytes: in no function

  7f19fdf1d2e0:  movq    %rax, -8(%rbp)
  7f19fdf1d2e4:  callq   *0x69(%rip)          # 0x7f19fdf1d358 -> JITRT_UnlinkFrame(_ts*)
"""

from __future__ import annotations

from typing import Literal

from icf.elf.types import Machine
from icf.errors import IcfError
from unwind.disasm.display import Display, Syntax
from unwind.disasm.memory import MemoryListing
from unwind.disasm.select import Region
from unwind.disasm.write_text import TextWriter
from unwind.target.live_code import LiveNames
from unwind.target.live_symbolizer import LiveSymbolizer


def annotate(
    code: bytes | bytearray | memoryview,
    address: int,
    symbolizer: LiveSymbolizer,
    *,
    name: str = "",
    syntax: Literal["att", "intel"] = "att",
) -> str:
    """Return the text of machine code, a line for each instruction, with a comment on what it refers to.

    Args:
        code: the machine code, for the machine of the process.
        address: where it lies in the process, or will lie.
        symbolizer: of the process that the code is for; constants beside the code are read from its memory.
        name: of the function, for the first line.
        syntax: of x86-64 code.

    Returns:
        Lines, each with its newline.

    Raises:
        IcfError: the process has ended, or the code does not fit the address space.
    """
    if address < 0 or address + len(code) > 1 << 64:
        raise IcfError(f"{len(code)} bytes of code do not fit the address space at {address:#x}")
    machine: Machine = symbolizer.live.modules()[0].image.machine

    def read(at: int, size_bytes: int) -> bytes:
        if address <= at < address + len(code):
            return bytes(code[at - address : at - address + size_bytes])
        return symbolizer.live.target.read(at, size_bytes)

    region = Region(address, address + len(code), made=name)
    writer = TextWriter(Display(machine, Syntax(syntax)))
    lines = writer.lines(region, MemoryListing(machine, read, LiveNames(symbolizer)).lines(region))
    return "".join(f"{line}\n" for line in [*writer.header(region), "", *lines])
