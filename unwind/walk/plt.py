"""Call frames of PLT stubs, which lld and others write without any.

x86-64, of 16 bytes each; a stub pushes the number of its import, the first one a pointer:

    jmp *slot(%rip)              ff 25 ....         cfa = rsp + 8            endbr64        f3 0f 1e fa
    push $number                 68 ....                                     push $number   68 ....
    jmp first                    e9 ....            cfa = rsp + 16           jmp first      e9 ....

    push pointer(%rip)           ff 35 ....         cfa = rsp + 16, entered from a stub
    jmp *resolver(%rip)          ff 25 ....         cfa = rsp + 24

AArch64: the first begins with `stp x16, x30, [sp, #-16]!`, the others do not touch the stack.
"""

from __future__ import annotations

import numpy as np

from icf.dwarf.cfi import rules
from icf.dwarf.cfi.entries import FrameSection
from icf.dwarf.cfi.frames import Row
from icf.elf.image import Image
from icf.elf.types import Machine

_NAMES = (".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt")
_STUB_BYTES = 16
_PUSH_POINTER, _JUMP, _ENDBR_PUSH = b"\xff\x35", b"\xff\x25", b"\xf3\x0f\x1e\xfa\x68"
_STP = b"\xf0\x7b\xbf\xa9"
_RSP, _RIP, _SP, _LR = 7, 16, 31, 30


def plt_row(image: Image, vaddr: int) -> Row | None:
    """Return the row of an address in a PLT; None for one that is in none."""
    for name in _NAMES:
        section = image.named(name)
        if section is not None and section.vaddr <= vaddr < section.vaddr + section.size_bytes:
            break
    else:
        return None
    offset = vaddr - section.vaddr
    if image.machine is Machine.AARCH64:
        has_pushed = 0 < offset < 2 * _STUB_BYTES and bytes(image.read(section.vaddr, 4)) == _STP
        return _row(image.machine, 16 * has_pushed)
    return _row(image.machine, _pushed_x86_64(image, vaddr, offset))


def entry_row(machine: Machine) -> Row:
    """Return the row of a function's first instruction."""
    return _row(machine, 0 if machine is Machine.AARCH64 else 8)


def _row(machine: Machine, pushed_bytes: int) -> Row:
    """Return the row of code that has moved the stack pointer this far below the CFA."""
    columns = np.zeros(rules.WIDTH, np.uint64)
    sp, return_address = (_SP, _LR) if machine is Machine.AARCH64 else (_RSP, _RIP)
    columns[rules.CFA_REGISTER], columns[rules.CFA_OFFSET] = sp, pushed_bytes
    columns[rules.RETURN_ADDRESS] = return_address
    if pushed_bytes:  # else it is in its register
        slot = rules.FIRST + 2 * return_address
        columns[slot : slot + 2] = rules.OFFSET, (1 << 64) - 8
    return Row(columns, FrameSection("", "", memoryview(b""), 0, machine))


def _pushed_x86_64(image: Image, vaddr: int, offset: int) -> int:
    """Return how far the CFA is from the stack pointer."""
    inside = offset % _STUB_BYTES
    stub = bytes(image.read(vaddr - inside, _STUB_BYTES))
    if stub.startswith(_PUSH_POINTER) and offset < _STUB_BYTES:
        return 24 if inside >= 6 else 16
    if stub.startswith(_ENDBR_PUSH):
        return 16 if inside >= 9 else 8
    if stub.startswith(_JUMP) and stub[6:7] == b"\x68":
        return 16 if inside >= 11 else 8
    return 8
