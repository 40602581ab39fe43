"""The machine code as the resolver needs it: the call before a return address, the jumps of a function.

A body is decoded on first use, straight through from the start. If decoding stops early (data
among the code), its jumps are not known, and the resolver rules nothing out, unless no bytes could be a jump out
of the function. A switch's jump table looks like any other indirect jump. A call into the middle of its own function is
one, too: a retpoline then overwrites the return address, and returns

    call 1f; 2: pause; jmp 2b; 1: mov %r11, (%rsp); ret         is jmp *%r11

So a call of a retpoline is an indirect call.

On AArch64 most functions have no word that could be a jump out of them. Those that have one are left to capstone, whose
import takes longer than many a run, because it recognizes words that are not instructions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from icf.code.branches import find_branches_in
from icf.code.call_ends import find_call_ends
from icf.code.calls import (
    LONGEST_CALL_BYTES,
    LONGEST_INSN_BYTES,
    NO_CALL,
    CallInsn,
    call_at_end,
    call_ending_at,
    call_size,
)
from icf.code.exits import find_exits
from icf.code.frame_pointer import HEAD_BYTES, frame_offset, may_have_ended
from icf.code.frame_states import FrameStates, frame_states
from icf.code.jumps import is_retpoline
from icf.elf.types import Machine
from unwind.program.constants import Constants
from unwind.program.parts import CallSite, Jumps, SiteKind

if TYPE_CHECKING:
    import capstone

    from unwind.program.facts import CodeFacts
    from unwind.program.passed import Passed, Registers

_LONGEST_BODY_BYTES = 1 << 20
# ff /4 and ff /5; call, jmp; jcc; jmp and jcc with 8 bits: bytes of such an instruction, and maybe of another
_BRANCH = re.compile(rb"\xff[\x20-\x2f\x60-\x6f\xa0-\xaf\xe0-\xef]|[\xe8\xe9]|\x0f[\x80-\x8f]|[\xeb\x70-\x7f]")
# jmp *disp32(%rip)
_SLOT_JUMP = re.compile(rb"[\x26\x2e\x36\x3e\x40-\x4f\x64-\x67\xf2\xf3]*\xff\x25(....)", re.DOTALL)
_BRANCH_NAMES = re.compile(r"^(?:b|b\.\w+|bra\w+|br|[ct]bn?z|(?P<call>bl|blr\w*))$")  # of AArch64
_LAST_VADDR = (1 << 64) - 1
_NO_CALL = CallSite(SiteKind.NONE)
_STUB_BYTES = 16  # a shorter stub is followed by another one, or by padding
# what a signal handler returns to, mov $15,%rax; syscall or mov x8,#139; svc #0: size of the first instruction, bytes
_SIGNAL_RETURNS = {
    Machine.X86_64: (7, bytes.fromhex("48c7c00f0000000f05")),
    Machine.AARCH64: (4, bytes.fromhex("681180d2010000d4")),
}
_Branch = tuple[int, int | None, int]  # address, target or None, place of the pointer that says it or -1


class DecodedCode:
    """The code of one image."""

    def __init__(self, facts: CodeFacts) -> None:
        self._facts = facts
        self._sites: dict[int, CallSite] = {}
        self._retpolines: dict[int, bool] = {}  # by target of a call
        self._jumps: dict[tuple[int, int], Jumps | None] = {}
        self._call_ends: dict[int, frozenset[int] | None] = {}  # by start of the function
        self._states: dict[int, FrameStates] = {}  # by start of the function, too
        self._frames: dict[int, int | None] = {}  # by start of the function, too
        constants = Constants(facts)
        self.may_form, self.may_load = constants.may_form, constants.may_load
        self.some_may_load = constants.some_may_load

    def call_site(self, return_address: int) -> CallSite:
        """Return the kind of the instruction before `return_address`, with its target."""
        site = self._sites.get(return_address)
        if site is None:
            # a caller that asks about an address that may be less one asks about the next one, too
            both = bytes(self._facts.read(return_address - LONGEST_CALL_BYTES, LONGEST_CALL_BYTES + 1))
            if len(both) > LONGEST_CALL_BYTES:
                after = return_address + 1
                self._sites[after] = self._site(call_at_end(self._facts, both[1:], after))
                site = self._site(call_at_end(self._facts, both[:-1], return_address))
            elif self._facts.read(max(return_address - 1, 0), 1):
                site = self._site(call_ending_at(self._facts, return_address))
            else:
                site = CallSite(SiteKind.UNKNOWN)
            self._sites[return_address] = site
        return site

    def _site(self, call: CallInsn) -> CallSite:
        if call is NO_CALL:
            return _NO_CALL
        if call.target is not None:
            symbol = self._facts.stubs.get(call.target)
        else:
            symbol = None if call.slot is None else self._facts.imports.get(call.slot)
        if symbol is not None:
            return CallSite(SiteKind.IMPORT, symbol=symbol)
        if call.target is None or self._is_retpoline(call.target):
            return CallSite(SiteKind.INDIRECT)
        return CallSite(SiteKind.DIRECT, call.target)

    def _is_retpoline(self, target: int) -> bool:
        found = self._retpolines.get(target)
        if found is None:
            found = self._retpolines[target] = is_retpoline(self._facts, target)
        return found

    @property
    def signs_pointers(self) -> bool:
        """Whether the upper bits of a return address may hold a signature (pointer authentication)."""
        return self._facts.machine is Machine.AARCH64

    def call_end(self, vaddr: int) -> int:
        """Return where the call ends that starts at `vaddr`; 0 if none does."""
        size_bytes = call_size(self._facts.machine, bytes(self._facts.read(vaddr, LONGEST_INSN_BYTES)))
        return vaddr + size_bytes if size_bytes else 0

    def ends_call(self, start: int, end: int, vaddr: int) -> bool | None:
        """Return whether a call of the function in `start:end` ends at `vaddr`; None: not known."""
        if self._facts.machine is Machine.AARCH64:
            return vaddr % 4 == 0
        ends = self._ends_of_calls(start, end)
        return None if ends is None else vaddr - start in ends

    def calls(self, start: int, end: int) -> list[int] | None:
        """Return the return addresses of the calls in `start:end`; None if they are not known."""
        ends = self._ends_of_calls(start, end)
        return None if ends is None else [start + each for each in sorted(ends)]

    def _ends_of_calls(self, start: int, end: int) -> frozenset[int] | None:
        """Return where calls end, as offsets in the function."""
        if start not in self._call_ends:
            size_bytes = end - start
            code = self._facts.read(start, size_bytes) if 0 < size_bytes <= _LONGEST_BODY_BYTES else memoryview(b"")
            self._call_ends[start] = find_call_ends(code, self._facts.machine) if len(code) == size_bytes else None
        return self._call_ends[start]

    def has_frame(self, start: int, end: int, vaddr: int) -> bool:
        """Return whether the function in `start:end` has set up its frame pointer at `vaddr`; False: not known."""
        if self._facts.machine is Machine.X86_64:
            return self._frame_states(start, end).at(vaddr - start)
        offset = self._frame_offset(start)
        if offset is None or vaddr < start + offset:
            return False
        return not may_have_ended(bytes(self._facts.read(start, vaddr - start)))

    def calls_have_frame(self, start: int, end: int) -> bool:
        """Return whether the function in `start:end` has its frame wherever it calls; False: not known."""
        if self._frame_offset(start) is not None:
            return True
        return self._facts.machine is Machine.X86_64 and self._frame_states(start, end).calls_have_frame

    def _frame_states(self, start: int, end: int) -> FrameStates:
        if start not in self._states:
            is_short = 0 < end - start <= _LONGEST_BODY_BYTES
            self._states[start] = frame_states(self._facts.read(start, end - start) if is_short else memoryview(b""))
        return self._states[start]

    def _frame_offset(self, start: int) -> int | None:
        if start not in self._frames:
            self._frames[start] = frame_offset(self._facts.machine, bytes(self._facts.read(start, HEAD_BYTES)))
        return self._frames[start]

    def calls_of(self, targets: Sequence[int]) -> Sequence[int]:
        """Return the return addresses of all direct calls of `targets`; more may be among them."""
        wanted, no_jumps = np.array(sorted(targets), np.uint64), np.zeros(0, np.uint64)
        return [
            int(end)
            for vaddr, text in self._facts.code()
            for end in find_branches_in(self._facts.machine, text, vaddr, wanted, no_jumps)[:, 0]
        ]

    def returns_from_signal(self, vaddr: int) -> bool:
        """Return whether the instructions at `vaddr`, the first or the second, are those that end a signal handler."""
        first_bytes, code = _SIGNAL_RETURNS[self._facts.machine]
        found = self._facts.read(vaddr, len(code))
        if found[: len(code) - first_bytes] == code[first_bytes:] and vaddr >= first_bytes:
            found = self._facts.read(vaddr - first_bytes, len(code))
        return found == code

    def in_stub(self, vaddr: int) -> bool:
        """Return whether a program counter is in a PLT stub: code of the linker, which only jumps."""
        row = bisect_right(self._stub_starts, vaddr) - 1
        return row >= 0 and vaddr < self._stub_starts[row] + _STUB_BYTES

    @cached_property
    def _stub_starts(self) -> list[int]:
        return sorted(self._facts.stubs)

    def jumps(self, start: int, end: int) -> Jumps | None:
        """Return the jumps of the function in `start:end`; None when it cannot be decoded."""
        key = (start, end)
        if key not in self._jumps:
            self._jumps[key] = self._decode_jumps(start, end)
        return self._jumps[key]

    def passed(self, start: int, end: int, given: Registers) -> tuple[Passed, ...] | None:
        """Return the calls and jumps to which the function in `start:end` passes on one of the `given` registers."""
        size_bytes = end - start
        code = self._facts.read(start, size_bytes) if 0 < size_bytes <= _LONGEST_BODY_BYTES else memoryview(b"")
        if len(code) < size_bytes or not size_bytes:
            return None
        from unwind.program.passed import find_passed

        return find_passed(code, start, given, self._facts.machine)

    def _decode_jumps(self, start: int, end: int) -> Jumps | None:
        size_bytes = end - start
        code = self._facts.read(start, size_bytes) if 0 < size_bytes <= _LONGEST_BODY_BYTES else memoryview(b"")
        if len(code) < size_bytes or not size_bytes:
            return None
        branches = _aarch64(code, start) if self._facts.machine is Machine.AARCH64 else self._x86_64(code, start)
        if branches is None:
            return None
        direct = []
        imports = []
        indirect = False
        for vaddr, target, slot in branches:
            if target is None:
                symbol = self._facts.imports.get(slot)
                if symbol is None:
                    indirect = True
                else:
                    imports.append((vaddr, symbol))
            elif target in self._facts.stubs:
                imports.append((vaddr, self._facts.stubs[target]))
            elif not start <= target < end or target == start:
                direct.append((vaddr, target))
        return Jumps(tuple(direct), indirect, tuple(imports))

    def _x86_64(self, code: memoryview, start: int) -> list[_Branch] | None:
        """Return the jumps out of a function, or to its start; None if it cannot be decoded."""
        exits = find_exits(code)
        if exits is None:
            return None if self._may_leave(bytes(code), start) else []
        branches: list[_Branch] = []
        for at, target in exits:
            if target is not None:
                branches.append((start + at, (start + target) & _LAST_VADDR, -1))
                continue
            place = _SLOT_JUMP.match(code, at)
            slot = -1 if place is None else start + place.end() + int.from_bytes(place[1], "little", signed=True)
            branches.append((start + at, None, slot & _LAST_VADDR))
        return branches

    def _may_leave(self, code: bytes, start: int) -> bool:
        """Return whether bytes look like a jump out of the function or to its start, or like a call into its middle."""
        end = start + len(code)
        low, high = self._facts.text
        for match in _BRANCH.finditer(code):
            opcode, at = code[match.start()], match.end()
            if opcode == 0xFF:
                return True
            size_bytes = 1 if opcode == 0xEB or opcode >> 4 == 7 else 4
            target = start + at + size_bytes + int.from_bytes(code[at : at + size_bytes], "little", signed=True)
            if low <= target < high and (start < target < end) == (opcode == 0xE8):
                return True
        return False


def _aarch64(code: memoryview, start: int) -> list[_Branch] | None:
    """Return what `DecodedCode._x86_64` returns; none if no word can be a jump out of the function."""
    if not _may_leave_aarch64(code):
        return []
    branches: list[_Branch] = []
    reached = start
    for vaddr, insn_bytes, mnemonic, operands in _disassembler().disasm_lite(bytes(code), start):
        reached = vaddr + insn_bytes
        kind = _BRANCH_NAMES.search(mnemonic)
        if kind is not None and not kind["call"]:
            branches.append((vaddr, _target(operands), -1))
    return branches if reached == start + len(code) else None


@cache
def _disassembler() -> capstone.Cs:
    import capstone

    return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)


def _may_leave_aarch64(code: memoryview) -> bool:
    words = np.frombuffer(code[: len(code) // 4 * 4], "<u4").astype(np.int64)
    if ((words >> 25 == 0x6B) & np.isin(words >> 21 & 0xF, (0, 8))).any():  # br, and with pointer authentication
        return True
    place = np.arange(len(words)) * 4
    for is_branch, first_bit, bits in (
        (words >> 26 == 5, 0, 26),  # b
        (words >> 24 == 0x54, 5, 19),  # b.cond
        (words & 0x7E000000 == 0x34000000, 5, 19),  # cbz, cbnz
        (words & 0x7E000000 == 0x36000000, 5, 14),  # tbz, tbnz
    ):
        displacement = words >> first_bit & (1 << bits) - 1
        target = place + 4 * (displacement - (displacement >> bits - 1 << bits))
        if (is_branch & ((target <= 0) | (target >= len(code)))).any():
            return True
    return False


def _target(operands: str) -> int | None:
    """Return the target of a branch; None if a register or memory holds it."""
    try:
        return int(operands.rpartition(", ")[2].lstrip("#"), 0) & (1 << 64) - 1
    except ValueError:
        return None
