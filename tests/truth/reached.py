"""How a frame was reached: from the machine code of the unfolded image, where each function has its own address.

The call at the return address names a function, a slot of a vtable, or nothing. What it names is the frame's function,
or one that left by a jump, and then the jump says how. The code is disassembled by capstone and read with one rule that
is generous: `call *16(%rax)` after `mov (%rdi), %rax` goes by slot 2. What is so found counts only if a vtable of the
image has the frame's function there, or a thunk that jumps to it.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import capstone

from tests.truth.symbols import FunctionTable

DIRECT = "direct call"
VIRTUAL = "virtual call"
POINTER = "call by pointer"
TAIL_DIRECT = "tail call, direct"
TAIL_VIRTUAL = "tail call, virtual"
TAIL_POINTER = "tail call, by pointer"
IMPORT = "call through the PLT"
OUTSIDE = "from another module"
UNKNOWN = "unknown"  # no call there: a signal, or the outermost frame
WAYS = (DIRECT, VIRTUAL, POINTER, TAIL_DIRECT, TAIL_VIRTUAL, TAIL_POINTER, IMPORT, OUTSIDE, UNKNOWN)

WORD_BYTES = 8
RELATIVE = (8, 1027)  # R_X86_64_RELATIVE, R_AARCH64_RELATIVE
NO_SLOT = -1
THUNKS = ("_ZTh", "_ZTv", "_ZTc")


class Branch(NamedTuple):
    """A call or a jump; one of `target` and `slot` is known, or none."""

    begin: int
    end: int
    is_call: bool
    target: int | None
    slot: int = NO_SLOT
    is_switch: bool = False


class Reached:
    """Answers for one image, each question once."""

    def __init__(self, image: FunctionTable) -> None:
        self._image = image
        arch = (
            (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
            if image.is_aarch64
            else (capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        )
        self._disassembler = capstone.Cs(*arch)
        self._branches: dict[int, list[Branch]] = {}
        self._ways: dict[tuple[int | None, int], str] = {}

    def way(self, return_address: int | None, function: int) -> str:
        """How `function` was entered that returns to an address, None for one outside of the image."""
        key = (return_address, function)
        if key not in self._ways:
            self._ways[key] = OUTSIDE if return_address is None else self._way(return_address, function)
        return self._ways[key]

    def _way(self, return_address: int, function: int) -> str:
        caller = self._image.start_of(return_address - 1)
        calls = [branch for branch in self._branches_of(caller) if branch.end == return_address] if caller else []
        if not calls or not calls[0].is_call:
            return UNKNOWN
        call = calls[0]
        if call.target == function:
            return DIRECT
        if call.target is not None:
            callee = self._image.start_of(call.target)
            return IMPORT if callee is None else self._tail({callee}, function)
        if call.slot == NO_SLOT:
            return POINTER
        called = self._in_slot[call.slot]
        return VIRTUAL if self._enter(called, function) else self._tail(called, function) if called else POINTER

    def _enter(self, called: set[int], function: int) -> bool:
        """Whether the function is one of those called, or a thunk of them leads there."""
        thunks = {start for start in called if self._image.keys_at[start][0].startswith(THUNKS)}
        return function in called or function in self._jumped_to(thunks)[0]

    def _tail(self, called: set[int], function: int) -> str:
        """By which jump one of the functions called, or one that it jumped to, left for `function`."""
        targets, slots = self._jumped_to(called)
        if function in targets:
            return TAIL_DIRECT
        return TAIL_VIRTUAL if any(self._enter(self._in_slot[slot], function) for slot in slots) else TAIL_POINTER

    def _jumped_to(self, starts: set[int]) -> tuple[set[int], set[int]]:
        """What functions reach by direct jumps, and the slots that they, or those reached, jump by."""
        found: set[int] = set()
        slots: set[int] = set()
        todo = list(starts)
        while todo:
            start = todo.pop()
            for branch in self._branches_of(start):
                if branch.is_call or branch.is_switch:
                    continue
                if branch.target is None:
                    slots.add(branch.slot)
                elif branch.target not in found and branch.target in self._image.keys_at and branch.target != start:
                    found.add(branch.target)
                    todo.append(branch.target)
        return found, slots - {NO_SLOT}

    def _branches_of(self, start: int) -> list[Branch]:
        found = self._branches.get(start)
        if found is None:
            code = self._image.read(start, self._image.size_at[start])
            decode = _arm64_branches if self._image.is_aarch64 else _x86_64_branches
            found = self._branches[start] = decode(list(self._disassembler.disasm_lite(code, start)))
        return found

    def targets(self, start: int, offset: int, *, is_call: bool) -> list[int]:
        """Where the direct call that ends at an offset of a function goes; of jumps, the one that begins there."""
        return [
            branch.target
            for branch in self._branches_of(start)
            if branch.target is not None
            and branch.is_call == is_call
            and (branch.end if is_call else branch.begin) == start + offset
        ]

    def direct(self, start: int) -> list[tuple[int, int, bool]]:
        """The direct calls that a function makes, and its jumps into others: where each ends, its target, the kind.

        A jump to the end of the function, which clang -O0 leaves after a call that does not return, is none.
        """
        own = start, start + self._image.size_at[start]
        return [
            (branch.end, branch.target, branch.is_call)
            for branch in self._branches_of(start)
            if branch.target in self._image.keys_at and (branch.is_call or branch.target not in own)
        ]

    def word(self, vaddr: int) -> int:
        """The word there when the image is loaded, as linked."""
        return self._relocated.get(vaddr) or int.from_bytes(self._image.read(vaddr, WORD_BYTES), "little")

    @cached_property
    def pointed(self) -> set[int]:
        """The functions that the loader writes the address of somewhere else than into vtables."""
        in_vtables = {place for start, size_bytes in self._vtables for place in range(start, start + size_bytes)}
        return {
            word for place, word in self._relocated.items() if place not in in_vtables and word in self._image.keys_at
        }

    @cached_property
    def virtuals(self) -> set[int]:
        """The functions in vtables."""
        return set().union(*self._in_slot.values())

    def vtable_holds(self, address_point: int, function: int) -> bool:
        """Whether the vtable there has the function in a slot, or a thunk that leads there."""
        return self._enter(self._in_vtable.get(address_point, set()), function)

    @cached_property
    def _in_slot(self) -> dict[int, set[int]]:
        """The functions in each slot of all vtables."""
        return _sets((slot, function) for _, slot, function in self._slots)

    @cached_property
    def _in_vtable(self) -> dict[int, set[int]]:
        """The functions in all slots of each vtable, by its address point."""
        return _sets((address_point, function) for address_point, _, function in self._slots)

    @cached_property
    def _slots(self) -> list[tuple[int, int, int]]:
        """Address point, slot and function of all vtables."""
        image, found = self._image, []
        type_infos = {start for name, start, _ in image.objects if name.startswith("_ZTI")}
        for start, size_bytes in self._vtables:
            address_point = 0
            for vaddr in range(start, start + size_bytes, WORD_BYTES):
                word = self.word(vaddr)
                if word in type_infos:
                    address_point = vaddr + WORD_BYTES
                elif address_point and word in image.keys_at:
                    found.append((address_point, (vaddr - address_point) // WORD_BYTES, word))
        return found

    @cached_property
    def _vtables(self) -> list[tuple[int, int]]:
        """Address and bytes of all vtables."""
        return [(start, size) for name, start, size in self._image.objects if name.startswith(("_ZTV", "_ZTC"))]

    @cached_property
    def _relocated(self) -> dict[int, int]:
        """The words that the loader writes, as linked."""
        table = struct.iter_unpack("<QQq", self._image.relocations)
        return {vaddr: addend for vaddr, info, addend in table if info & 0xFFFFFFFF in RELATIVE}


def _sets(pairs: Iterable[tuple[int, int]]) -> dict[int, set[int]]:
    found = defaultdict[int, set[int]](set)
    for key, value in pairs:
        found[key].add(value)
    return found


Instruction = tuple[int, int, str, str]  # vaddr, size, mnemonic, operands


def _x86_64_branches(instructions: list[Instruction]) -> list[Branch]:
    """`mov SOURCE, %TARGET` before the branch says where its register is from."""
    found = []
    source_of: dict[str, str] = {}  # register -> where it was last read from
    for vaddr, size_bytes, mnemonic, operands in instructions:
        words = mnemonic.split()
        if words[-1] == "call" or words[-1].startswith("j"):
            is_call, end = words[-1] == "call", vaddr + size_bytes
            if operands.startswith("0x"):
                found.append(Branch(vaddr, end, is_call, int(operands, 16)))
                continue
            place = operands if "[" in operands else source_of.get(operands, "?")
            is_switch = not is_call and ("*" in place or place == "?")
            found.append(Branch(vaddr, end, is_call, None, _slot(place, source_of), is_switch))
            continue
        target, _, source = operands.partition(", ")
        if target.startswith("r"):
            source_of[target] = source if mnemonic == "mov" else "?"
    return found


def _slot(place: str, source_of: dict[str, str]) -> int:
    """`qword ptr [rax + 0x10]` is slot 2, if rax was read from `qword ptr [REGISTER]`."""
    register, _, distance = place.removeprefix("qword ptr [").removesuffix("]").partition(" + ")
    table = source_of.get(register, "") if place.startswith("qword ptr [") else ""
    if not table.startswith("qword ptr [r") or "rip" in table or "rip" in place or not _is_number(distance or "0"):
        return NO_SLOT
    return NO_SLOT if int(distance or "0", 0) % WORD_BYTES else int(distance or "0", 0) // WORD_BYTES


def _is_number(text: str) -> bool:
    return text.isdecimal() or text.startswith("0x")


def _arm64_branches(instructions: list[Instruction]) -> list[Branch]:
    found = []
    source_of: dict[str, str] = {}
    for vaddr, size_bytes, mnemonic, operands in instructions:
        end = vaddr + size_bytes
        target, _, source = operands.partition(", ")
        if mnemonic in ("b", "bl"):
            found.append(Branch(vaddr, end, mnemonic == "bl", int(operands.removeprefix("#"), 16)))
        elif mnemonic in ("br", "blr"):
            register, _, distance = source_of.get(target, "").strip("[]").partition(", #")
            number = int(distance or "0", 0) if _is_number(distance or "0") else 1
            is_slot = (
                register.startswith("x") and source_of.get(register, "").startswith("[x") and number % WORD_BYTES == 0
            )
            slot = number // WORD_BYTES if is_slot else NO_SLOT
            found.append(
                Branch(
                    vaddr,
                    end,
                    mnemonic == "blr",
                    None,
                    slot,
                    mnemonic == "br" and not is_slot and target not in source_of,
                )
            )
        elif target.startswith("x"):
            source_of[target] = source if mnemonic == "ldr" else "?"
    return found
