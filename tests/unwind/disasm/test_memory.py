"""Code that no image has: its pool of literals, and what its constants mean."""

from __future__ import annotations

import struct

import pytest

from icf.elf.types import Machine
from unwind.disasm.display import Display, Syntax
from unwind.disasm.memory import MemoryListing
from unwind.disasm.notes import Data, Function, Meaning, Place
from unwind.disasm.select import Region
from unwind.disasm.write_text import TextWriter

START, GROW, TABLE = 0x7F0000001000, 0x401136, 0x404010


class Known:
    """Two things in a process: a function of 16 bytes, and a variable."""

    def at(self, address: int) -> Place | None:
        if GROW <= address < GROW + 16:
            return Function(address, address - GROW, 1, (Meaning(("_ZN4ListI5OrderE4growEv",)),))
        return Data(TABLE, ("table",), 0, ".bss") if address == TABLE else None


def listed(machine: Machine, code: bytes, syntax: Syntax = Syntax.INTEL) -> list[str]:
    """Return each instruction as text, without its address and with single blanks."""

    def read(address: int, size_bytes: int) -> bytes:
        return code[address - START : address - START + size_bytes] if START <= address < START + len(code) else b""

    region = Region(START, START + len(code), made="made")
    writer = TextWriter(Display(machine, syntax), with_addresses=False)
    return [
        " ".join(line.split()) for line in writer.lines(region, MemoryListing(machine, read, Known()).lines(region))
    ]


def test_a_call_through_the_pool() -> None:
    code = b"\xff\x15\x02\x00\x00\x00" + b"\xc3\x90" + struct.pack("<Q", GROW)
    assert listed(Machine.X86_64, code, Syntax.ATT) == [
        "callq *2(%rip) # -> List<Order>::grow()",
        "retq",
        "nop",
        ".quad 0x401136 # List<Order>::grow()",
    ]
    assert listed(Machine.X86_64, code)[0] == "call qword ptr [rip + 2] ; -> List<Order>::grow()"


def test_code_goes_on_after_the_pool() -> None:
    code = b"\xff\x25\x00\x00\x00\x00" + struct.pack("<Q", GROW) + b"\x55\xc3"
    assert listed(Machine.X86_64, code) == [
        "jmp qword ptr [rip] ; -> List<Order>::grow()",
        ".quad 0x401136 ; List<Order>::grow()",
        "push rbp",
        "ret",
    ]


def test_constants_in_instructions() -> None:
    exact, inside = (b"\x48\xb8" + struct.pack("<Q", address) for address in (GROW, GROW + 4))
    variable = b"\x48\xb9" + struct.pack("<Q", TABLE)
    assert listed(Machine.X86_64, exact + inside + variable + b"\xc3") == [
        "movabs rax, 0x401136 ; maybe List<Order>::grow()",
        "movabs rax, 0x40113a",
        "movabs rcx, 0x404010 ; maybe table",
        "ret",
    ]


def test_a_direct_call_and_a_jump_inside() -> None:
    far = b"\xe8" + struct.pack("<i", -0x100)
    assert listed(Machine.X86_64, far + b"\xeb\xf9")[1].startswith("jmp ...")
    near = struct.pack("<i", GROW - (START + 5) & 0x7FFFFFFF)
    assert listed(Machine.X86_64, b"\xe8" + near) == ["call ..."]  # nothing is known there


def test_the_pool_of_aarch64() -> None:
    words = (0x58000070, 0xD63F0200, 0xD65F03C0)  # ldr x16, #12; blr x16; ret
    code = struct.pack("<3I", *words) + struct.pack("<Q", GROW)
    assert listed(Machine.AARCH64, code) == [
        "ldr x16, #0x7f000000100c ; -> List<Order>::grow()",
        "blr x16 ; -> List<Order>::grow()",
        "ret",
        ".quad 0x401136 ; List<Order>::grow()",
    ]


@pytest.mark.parametrize("size", range(1, 15))
def test_code_that_ends_anywhere(size: int) -> None:
    code = (b"\xff\x25\x00\x00\x00\x00" + struct.pack("<Q", GROW))[:size]
    assert listed(Machine.X86_64, code)
