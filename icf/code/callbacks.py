"""Functions that code passes to an import that calls them back before it returns: comparators of `qsort`, `bsearch`.

    lea  by_age(%rip), %rcx       forms the address: `formed` is the end of this instruction
    mov  $8, %edx
    call qsort@plt                `call_end`

Only what a call is given on every path is found: no call and no jump is between the two instructions, and nothing jumps
there. Copies between registers are followed. A value that is loaded, or that paths choose, is not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.code import operations as op
from icf.code.branches import executable_sections, find_branches
from icf.code.calls import LONGEST_CALL_BYTES, CallKind, call_ending_at
from icf.code.indirect import find_switches
from icf.code.rows import decode_function
from icf.code.short_jumps import find_short_jumps
from icf.columns import I64, U64
from icf.elf.types import Machine
from icf.sets import is_in

if TYPE_CHECKING:
    from icf.elf.image import Image

# an import -> which of its arguments it calls, from 0 on. Each calls it on the stack of its call, and nothing else
# through a pointer of the program (the C library calls malloc, which a program can replace, by its name)
CALLED_ARGUMENT: Mapping[str, int] = {"qsort": 3, "qsort_r": 3, "bsearch": 4, "lfind": 4, "lsearch": 4}
_REGISTERS = {Machine.X86_64: (7, 6, 2, 1, 8, 9), Machine.AARCH64: (0, 1, 2, 3, 4, 5)}
_LONGEST_BYTES = 1 << 8  # between the two instructions
_LONGEST_FUNCTION_BYTES = 1 << 20
_LEAVES = (op.CALL, op.CALL_VALUE, op.JUMP, op.JUMP_VALUE, op.STOP, op.BAD, op.FORGET)
_WRITES_A = (op.COPY, op.ADD, op.SUM, op.CONST, op.LOAD, op.INDEXED, op.SCALED_SUM)
_LEA_BYTES = 7
_ADR_MASK, _ADR, _ADRP = 0x9F000000, 0x10000000, 0x90000000
_SHORT_BYTES = 1 << 8  # more than a jump of x86-64 with 8 bits reaches, which chance bytes often look like
_CALL_BYTES = {Machine.X86_64: 5, Machine.AARCH64: 4}
_KEPT_FUNCTIONS = 16
_LONGEST_ROWS = 4 * _LONGEST_BYTES
_LIMIT = 1 << 62  # of addresses, so that sums fit 64 bits
_NONE: U64 = np.empty(0, np.uint64)


class Given(NamedTuple):
    """A function that a call is given to call back."""

    call_end: int  # the return address of the call
    formed: int  # the end of the instruction that forms the address
    target: int  # the address


def called_argument(symbol: str) -> int:
    """Return which argument an import calls before it returns, from 0 on; -1: none.

    Args:
        symbol: its name, maybe with a version (`qsort@GLIBC_2.2.5`).
    """
    return CALLED_ARGUMENT.get(symbol.partition("@")[0], -1)


def find_given(image: Image, starts: U64, ends: U64) -> list[Given]:
    """Return what is given to calls of such imports in the functions `starts`..`ends`, which ascend; by call."""
    inside = ends <= np.uint64(_LIMIT)
    functions = _Functions(image, starts[inside], ends[inside])
    found = []
    for call_end, register in sorted(_calls(image)):
        function = functions.at(call_end - 1)
        given = None if function is None else _given(image, function, call_end, register)
        if given is not None:
            found.append(given)
    return list(_not_entered(image, functions, found))


def is_passed(image: Image, call_end: int, target: int) -> bool:
    """Return whether a call of such an import ends at an address, and code before it forms the address `target`."""
    call = call_ending_at(image, call_end)
    symbol = image.plt_stubs.get(call.target) if call.target is not None else image.got_imports.get(call.slot or 0)
    if call.kind is CallKind.NONE or symbol is None or called_argument(symbol) < 0:
        return False
    start = max(call_end - _LONGEST_BYTES - LONGEST_CALL_BYTES, 0)
    while start < call_end and len(image.read(start, call_end - start)) < call_end - start:
        start += 1
    code = bytes(image.read(start, call_end - start))
    if image.machine is Machine.AARCH64:
        words = [int.from_bytes(code[at : at + 4], "little") for at in range(-start % 4, len(code) - 3, 4)]
        is_add = (word & 0xFFC00000 == 0x91000000 and word >> 10 & 0xFFF == target & 0xFFF for word in words)
        return any(is_add) or any(word & _ADR_MASK == _ADR for word in words)
    ends = (start + at + _LEA_BYTES for at in range(len(code) - _LEA_BYTES) if _is_lea(code[at : at + _LEA_BYTES]))
    return any(
        end + int.from_bytes(code[end - start - 4 : end - start], "little", signed=True) == target for end in ends
    )


def _calls(image: Image) -> Iterator[tuple[int, int]]:
    """Yield the end of each call of such an import, and the register of the argument."""
    registers = _REGISTERS[image.machine]
    register_of = {
        stub: registers[called_argument(symbol)]
        for stub, symbol in image.plt_stubs.items()
        if called_argument(symbol) >= 0
    }
    if register_of:
        calls = find_branches(image, np.array(sorted(register_of), np.uint64), _NONE)
        for end, target in zip(calls.end.tolist(), calls.target.tolist(), strict=True):
            yield end, register_of[target]
    by_slot = {
        slot: registers[called_argument(symbol)]
        for slot, symbol in image.got_imports.items()
        if called_argument(symbol) >= 0
    }
    if by_slot and image.machine is Machine.X86_64:
        yield from _calls_by_slot(image, by_slot)


def _calls_by_slot(image: Image, register_of: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the same for `call *slot(%rip)`."""
    for section in executable_sections(image):
        if section.vaddr + section.size_bytes > _LIMIT:
            continue
        code = np.frombuffer(section.code, np.uint8)
        at = np.flatnonzero((code[:-5] == 0xFF) & (code[1:-4] == 0x15)) if len(code) > 6 else np.empty(0, np.int64)
        words = sum(code[at + 2 + idx].astype(np.uint32) << np.uint32(8 * idx) for idx in range(4))
        slots = at + 6 + section.vaddr + np.asarray(words, np.uint32).view(np.int32).astype(np.int64)
        for place, slot in zip(at.tolist(), slots.tolist(), strict=True):
            if slot in register_of:
                yield section.vaddr + place + 6, register_of[slot]


class _Function:
    """A function whose instructions are all known."""

    def __init__(self, image: Image, start: int, code: memoryview, rows: I64) -> None:
        self.start, self.code, self.rows = start, code, rows
        self._image = image
        kind, value, offset = rows[:, op.KIND], rows[:, op.VALUE], rows[:, op.AT]
        self.jump_targets: I64 = value[(kind == op.JUMP) | (kind == op.BRANCH)]
        size_bytes = np.where(kind == op.CALL, _CALL_BYTES[image.machine], value)
        calls = np.flatnonzero((kind == op.CALL) | (kind == op.CALL_VALUE))
        self.calls = dict(zip((offset + size_bytes)[calls].tolist(), calls.tolist(), strict=True))  # rows by their end

    @cached_property
    def entered(self) -> I64 | None:
        """The offsets to which its jumps lead, ascending; None if they are not all known."""
        kind = self.rows[:, op.KIND]
        targets = [self.jump_targets, self.rows[kind == op.CALL, op.VALUE]]
        jumps = set(self.rows[kind == op.JUMP_VALUE, op.AT].tolist())
        if jumps:
            switches = find_switches(self._image, self.start, self.start + len(self.code))
            if jumps - {switch.jump - self.start for switch in switches}:
                return None  # it may be a tail call, or not
            targets += [np.array(switch.targets, np.int64) - self.start for switch in switches]
        return np.sort(np.concatenate(targets))


class _Functions:
    """The functions of an image, each decoded when it is needed."""

    def __init__(self, image: Image, starts: U64, ends: U64) -> None:
        self._image, self._starts, self._ends = image, starts, ends
        self._known: dict[int, _Function | None] = {}

    def at(self, vaddr: int) -> _Function | None:
        """Return the function at an address, if there is one, and all of its instructions are known."""
        row = int(np.searchsorted(self._starts, np.uint64(vaddr), side="right")) - 1
        return self._of(row) if row >= 0 and vaddr < int(self._ends[row]) else None

    def between(self, low: int, high: int) -> Iterator[_Function | None]:
        """Yield the functions with code there; None for one that is not known."""
        first = int(np.searchsorted(self._starts, np.uint64(max(low, 0)), side="right")) - 1
        for row in range(max(first, 0), int(np.searchsorted(self._starts, np.uint64(high)))):
            if int(self._ends[row]) > max(low, int(self._starts[row])):
                yield self._of(row)

    def _of(self, row: int) -> _Function | None:
        if row not in self._known:
            if len(self._known) >= _KEPT_FUNCTIONS:
                self._known.clear()
            self._known[row] = self._decode(int(self._starts[row]), int(self._ends[row]))
        return self._known[row]

    def _decode(self, start: int, end: int) -> _Function | None:
        if not 0 < end - start <= _LONGEST_FUNCTION_BYTES:
            return None
        code = self._image.read(start, end - start)
        rows = decode_function(code, self._image.machine)
        if len(code) < end - start or (rows[:, op.KIND] == op.BAD).any():
            return None
        return _Function(self._image, start, code, rows)


def _given(image: Image, function: _Function, call_end: int, register: int) -> Given | None:
    """Return the function in a register at the call that ends at `call_end`, if the code before it says so."""
    start, code, call = function.start, function.code, function.calls.get(call_end - function.start, -1)
    if call < 0 or function.entered is None:
        return None
    added: int | None = None  # on AArch64: the lower bits, once the instruction that adds them is found
    formed = 0
    rows = function.rows[max(call - _LONGEST_ROWS, 0) : call + 1].tolist()
    before = rows[-1][op.AT]
    for kind, a, b, _, value, offset in reversed(rows[:-1]):
        if kind in _LEAVES or rows[-1][op.AT] - offset > _LONGEST_BYTES:
            return None
        if _any_in(function.entered, range(offset + 1, before + 1)):
            return None  # another path leads to what follows
        before = offset
        if not (a == register if kind in _WRITES_A else kind == op.KILL and a >> register & 1):
            continue
        if kind == op.COPY and added is None:
            register = b
        elif kind == op.ADD and added is None and image.machine is Machine.AARCH64:
            register, added, formed = b, value, offset + 4
        elif kind == op.CONST and image.machine is Machine.AARCH64:
            insn = int.from_bytes(code[offset : offset + 4], "little")
            if added is None:  # the linker has made `nop; adr` of `adrp; add`
                return Given(call_end, start + offset + 4, start + value) if insn & _ADR_MASK == _ADR else None
            page = _page(start + offset, insn)
            return None if page is None else Given(call_end, start + formed, page + added)
        elif kind == op.CONST and _is_lea(bytes(code[offset : offset + _LEA_BYTES])):
            return Given(call_end, start + offset + _LEA_BYTES, start + value)
        else:
            return None
    return None


def _is_lea(code: bytes) -> bool:
    """Return whether code is `lea disp32(%rip)`."""
    return len(code) == _LEA_BYTES and code[0] in (0x48, 0x4C) and code[1] == 0x8D and code[2] & 0xC7 == 0x05


def _page(vaddr: int, insn: int) -> int | None:
    """Return what `adrp` at an address makes; None for another instruction."""
    if insn & _ADR_MASK != _ADRP:
        return None
    pages = (insn >> 5 & 0x7FFFF) << 2 | insn >> 29 & 3
    return (vaddr >> 12 << 12) + ((pages ^ 1 << 20) - (1 << 20)) * 4096


def _not_entered(image: Image, functions: _Functions, found: list[Given]) -> Iterator[Given]:
    """Yield those between whose two instructions nothing else leads: no jump, as of an outlined part, and no call of
    another entry of the function, which assembly may have.
    """
    targets = sorted({place for each in found for place in range(each.formed, each.call_end)})
    if not targets:
        return
    wanted = np.array(targets, np.uint64)
    entered = set(find_branches(image, wanted, wanted).target.tolist())
    labels = image.symbols.value[image.symbols.is_defined]
    entered.update(labels[is_in(labels, wanted)].tolist())
    if image.machine is Machine.AARCH64:
        entered.update(target for _, target in find_short_jumps(image, wanted))
    for each in found:
        between = range(each.formed, each.call_end)
        if entered.isdisjoint(between) and not _is_entered_by_neighbour(functions, between):
            yield each


def _is_entered_by_neighbour(functions: _Functions, places: range) -> bool:
    """Return whether a short jump of a function nearby may lead to one of `places`."""
    for function in functions.between(places.start - _SHORT_BYTES, places.stop + _SHORT_BYTES):
        if function is None:
            return True
        is_own = function.start <= places.start < function.start + len(function.code)  # those were looked at
        shifted = range(places.start - function.start, places.stop - function.start)
        if not is_own and _any_in(np.sort(function.jump_targets), shifted):
            return True
    return False


def _any_in(ascending: I64, places: range) -> bool:
    return int(np.searchsorted(ascending, places.stop)) > int(np.searchsorted(ascending, places.start))
