"""The registers of a thread as the kernel writes them (struct user_regs_struct), to DWARF's numbers."""

from __future__ import annotations

from struct import unpack_from

from icf.elf.types import Machine
from icf.reader import Reader

# DWARF's number of each, -1: not needed; x86-64: r15 ... r12, rbp, rbx, r11 ... r8, rax, rcx, rdx, rsi, rdi, orig_rax,
# rip, cs, eflags, rsp
_ORDER = {
    Machine.X86_64: (15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, -1, 16, -1, -1, 7),
    Machine.AARCH64: tuple(range(33)),
}
NEEDED_BYTES = {machine: 8 * len(order) for machine, order in _ORDER.items()}
"""How many bytes of the struct are needed."""


def registers_of(machine: Machine, content: bytes | memoryview) -> dict[int, int]:
    """Return the registers by DWARF number; `content` has at least `NEEDED_BYTES`."""
    order = _ORDER[machine]
    values = unpack_from(f"<{len(order)}Q", content)
    return {number: value for number, value in zip(order, values, strict=True) if number >= 0}


# Where the registers are in the CONTEXT of a minidump: offset, then DWARF's numbers of the words from there on; x86-64:
# rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 ... r15, rip; AArch64: x0 ... x30, sp, pc
_CONTEXTS = {
    Machine.X86_64: (120, (0, 2, 1, 3, 7, 6, 4, 5, *range(8, 16), 16)),
    Machine.AARCH64: (8, tuple(range(33))),
}


def registers_of_context(machine: Machine, reader: Reader) -> dict[int, int]:
    """Return the registers of a minidump's CONTEXT by DWARF number. Raises `FormatError` for one that is too short."""
    offset, order = _CONTEXTS[machine]
    reader.pos = offset
    return {number: reader.u64() for number in order}
