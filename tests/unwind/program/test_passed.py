"""To which calls a function hands on its object, in machine code written out."""

from __future__ import annotations

import pytest

from icf.elf.types import Machine
from unwind.program.passed import Passed, Registers, find_passed

START = 0x1000
X86_64 = """
    53              push %rbx
    4889fb          mov %rdi, %rbx
    bf01000000      mov $1, %edi
    e800000000      call: gets 1
    4889df          mov %rbx, %rdi
    e800000000      0x1011: call: gets the object
    5b c3           pop %rbx; ret
"""
BRANCH = """
    85f6            test %esi, %esi
    7402            je 1f
    31ff            xor %edi, %edi
    e900010000      1: 0x1006: jmp elsewhere: gets the object, or nothing
"""
ON_STACK = """
    48897c2408      mov %rdi, 8(%rsp)
    e800000000      0x1005: call: gets the object
    31ff            xor %edi, %edi
    488b742408      mov 8(%rsp), %rsi
    e800000000      0x1011: call: gets it as the second argument
    488d7e08        lea 8(%rsi), %rdi
    e800000000      call: gets a part of what it was given
    c3              ret
"""
AARCH64 = """
    fd7bbfa9        stp x29, x30, [sp, #-16]!
    f30300aa        mov x19, x0
    20008052        mov w0, #1
    00000094        bl: gets 1
    e00313aa        mov x0, x19
    40000014        0x1014: b elsewhere: gets the object
"""


def code(listing: str) -> memoryview:
    return memoryview(b"".join(bytes.fromhex(line.strip().partition("  ")[0]) for line in listing.split("\n")))


@pytest.mark.parametrize(
    ("listing", "machine", "found"),
    [
        (X86_64, Machine.X86_64, [Passed(0x1011, 0x1016, False, frozenset({"rdi"}))]),
        (BRANCH, Machine.X86_64, [Passed(0x1006, 0x100B, True, frozenset({"rdi"}))]),
        (
            ON_STACK,
            Machine.X86_64,
            [Passed(0x1005, 0x100A, False, frozenset({"rdi"})), Passed(0x1011, 0x1016, False, frozenset({"rsi"}))],
        ),
        (AARCH64, Machine.AARCH64, [Passed(0x1014, 0x1018, True, frozenset({"x0"}))]),
    ],
    ids=["register", "branch", "stack", "aarch64"],
)
def test_calls_that_get_the_object(listing: str, machine: Machine, found: list[Passed]) -> None:
    given: Registers = frozenset({"rdi", "x0"})
    assert find_passed(code(listing), START, given, machine) == tuple(found)


def test_code_that_cannot_be_followed() -> None:
    assert find_passed(memoryview(b"\x53\x06"), START, frozenset({"rdi"}), Machine.X86_64) is None
