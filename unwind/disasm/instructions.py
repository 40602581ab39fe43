"""Machine code as instructions with the facts in their text: where they branch, which address they form or access.

capstone decodes; its text is what is shown, and what is read here, as decoding with details takes several times as
long. Bytes that are not an instruction come out as `.byte`, one at a time (x86-64) or four, and decoding goes on after
them.

    call   0x8c0                        CALL, target 0x8c0
    lea    rdi, [rip + 0x2e1]           forms an address       ADDRESS
    mov    rax, qword ptr [rip + 0x2f]  accesses a place       LOAD, or STORE where it writes; its size in bytes
    mov    edi, 0x402010                may be an address      NUMBER

AArch64 forms addresses by two instructions: `unwind.disasm.registers` finds those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

import capstone

from icf.elf.types import Machine

UNDECODED, WORD = ".byte", ".quad"  # mnemonics of bytes that are not an instruction, and of a constant among code
_LAST_VADDR = (1 << 64) - 1
_PIECE_BYTES = 1 << 16  # decoded together
_LONGEST_BYTES = 16  # more than any instruction

_BRANCH = {
    Machine.X86_64: re.compile(r"(?:^|\s)(?:(?P<call>l?call)|(?P<jump>l?jmp)|j[a-z]+|loop\w*)$"),
    Machine.AARCH64: re.compile(r"^(?:(?P<call>bl|blr\w*)|(?P<jump>b|br\w*)|b\.\w+|bc\.\w+|[ct]bn?z)$"),
}
_RETURN = re.compile(r"(?:^|\s)(?:l?retf?q?|iretq?|ret\w+|eret\w*|ud2|hlt|udf)$")
_RIP = re.compile(r"\[rip(?: ([+-]) (\w+))?\]")
_FIXED = re.compile(r"(?<!:)\[(0x[0-9a-f]+)\]")
_IMMEDIATE = re.compile(r"(?:^|, )(0x[0-9a-f]+)$")
_SIZE = re.compile(r"(\w+) ptr ")
_SIZES_BYTES = {"byte": 1, "word": 2, "dword": 4, "qword": 8, "xmmword": 16, "ymmword": 32, "zmmword": 64}
_READS_FIRST = re.compile(r"^(?:cmp|test|push|call|jmp|bnd|notrack|mul|imul|div|idiv|bt|u?comis|prefetch|ld|fld|fild)")


class Kind(Enum):
    """What an instruction does to the flow of control."""

    CALL = "call"
    JUMP = "jump"
    BRANCH = "branch"  # a conditional jump
    RETURN = "return"  # or nothing that comes back here
    OTHER = "other"


class Use(Enum):
    """What an instruction does with an address."""

    ADDRESS = "address"  # it puts it into a register
    LOAD = "load"
    STORE = "store"
    NUMBER = "number"  # its immediate operand may be one


class Reference(NamedTuple):
    """An address that an instruction refers to."""

    use: Use
    vaddr: int
    size_bytes: int = 0  # of what it loads or stores; 0: not known


class Instruction(NamedTuple):
    """One instruction, or undecodable bytes."""

    vaddr: int
    code: bytes
    mnemonic: str
    operands: str
    kind: Kind
    target: int | None  # of a direct call or jump
    references: tuple[Reference, ...] = ()

    @property
    def end(self) -> int:
        return self.vaddr + len(self.code)


Read = Callable[[int, int], memoryview]


class Decoder:
    """Decodes the code of one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._branch = _BRANCH[machine]
        if machine is Machine.X86_64:
            self._capstone = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        else:
            self._capstone = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
        self._capstone.skipdata = True

    def decode(self, read: Read, start: int, end: int) -> Iterator[Instruction]:
        """Yield the instructions of `start`..`end`, as far as `read` has the bytes."""
        while start < end:
            code = bytes(read(start, min(end - start, _PIECE_BYTES + _LONGEST_BYTES)))
            last = min(start + _PIECE_BYTES, start + len(code))
            if not code:
                return
            first, reached = start, start
            for vaddr, size_bytes, mnemonic, operands in self._capstone.disasm_lite(code, start):
                if vaddr >= last:
                    break
                reached = vaddr + size_bytes
                yield self._instruction(vaddr, code[vaddr - first : reached - first], mnemonic, operands)
            if reached < last:  # too few bytes for an instruction
                rest = code[reached - first : last - first]
                yield Instruction(reached, rest, UNDECODED, ", ".join(map(hex, rest)), Kind.OTHER, None)
                reached = last
            start = reached

    def _instruction(self, vaddr: int, code: bytes, mnemonic: str, operands: str) -> Instruction:
        kind, target = Kind.OTHER, None
        references: tuple[Reference, ...] = ()
        branch = self._branch.search(mnemonic)
        if branch is not None:
            kind = Kind.CALL if branch["call"] else Kind.JUMP if branch["jump"] else Kind.BRANCH
            target = _target(operands)
        elif _RETURN.search(mnemonic):
            kind = Kind.RETURN
        if self._machine is Machine.X86_64 and target is None and mnemonic != UNDECODED:
            references = tuple(_references(mnemonic, operands, vaddr + len(code)))
        return Instruction(vaddr, code, mnemonic, operands, kind, target, references)


def _target(operands: str) -> int | None:
    """Return the target of a branch; None if a register or memory holds it."""
    try:
        return int(operands.rpartition(", ")[2].lstrip("#"), 0) & _LAST_VADDR
    except ValueError:
        return None


def _references(mnemonic: str, operands: str, end: int) -> Iterator[Reference]:
    """Yield the fixed addresses that an x86-64 instruction, which ends at `end`, refers to."""
    place = _RIP.search(operands)
    fixed = None if place else _FIXED.search(operands)
    vaddr = None
    if place is not None:
        distance = int(place[2], 0) if place[2] else 0
        vaddr = (end - distance if place[1] == "-" else end + distance) & _LAST_VADDR
    elif fixed is not None:
        vaddr = int(fixed[1], 0) & _LAST_VADDR
    if vaddr is not None and mnemonic == "lea":
        yield Reference(Use.ADDRESS, vaddr)
    elif vaddr is not None:
        size = _SIZE.search(operands)
        writes = size is not None and size.start() == 0 and not _READS_FIRST.match(mnemonic)
        yield Reference(Use.STORE if writes else Use.LOAD, vaddr, _SIZES_BYTES.get(size[1], 0) if size else 0)
    number = _IMMEDIATE.search(operands) if mnemonic in ("mov", "movabs", "push") else None
    if number is not None:
        yield Reference(Use.NUMBER, int(number[1], 0))
