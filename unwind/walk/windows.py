"""The steps of a PE image for x86-64: rows as those of call frame information, made of the unwind codes of `.xdata`.

    pc in a prologue    the codes of the instructions before it        sub $0x28,%rsp ──> CFA = rsp + 0x30
    pc in an epilogue   the instructions up to its end (`epilogue`)    pop %rbx ; ret ──> CFA = rsp + 16
    elsewhere           all codes, and those of chained functions
    in no function      a leaf, which calls nothing                    CFA = rsp + 8

Codes move the stack pointer to where it was at the first instruction; there it points to the return address. All of a
row counts from a register of the frame: the stack pointer, or from SET_FPREG on the frame register. What was saved
counts from the other one in some functions; the rule is an expression then.

A machine frame is what the processor pushes for an interrupt: rip, cs, eflags, rsp, ss.

Source: Microsoft, "x64 exception handling", Unwind procedure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from icf.code.call_ends import find_call_ends
from icf.code.calls import CallKind, call_ending_at
from icf.dwarf.cfi import rules
from icf.dwarf.cfi.entries import FrameSection
from icf.dwarf.cfi.frames import Row
from icf.elf.types import Machine
from icf.errors import FormatError
from icf.pe import unwindinfo as u
from icf.pe.image import PeImage
from icf.pe.unwindinfo import RuntimeFunction, UnwindInfo, UnwindTable
from unwind.walk.epilogue import read_epilogue
from unwind.walk.stackpointer import DWARF_NUMBER, RIP, StackPointer

_KEPT = (3, 4, 5, 6, 12, 13, 14, 15)  # rbx, rsi, rdi, rbp, r12 to r15: a function restores them
_RSP_OF_MICROSOFT = 4
_MASK = (1 << 64) - 1
_WORD_BYTES, _CALLER_SP = 8, 24  # of a machine frame: where rsp is
_BREG0, _DEREF = 0x70, 6  # DWARF's operations
_DECODE_LIMIT_BYTES = 1 << 18


class WindowsSteps:
    """Finds rows by addresses as linked; `report` is called once, for the first function that is malformed."""

    def __init__(self, image: PeImage, report: Callable[[FormatError], None]) -> None:
        self._image, self._report, self._has_reported = image, report, False

    def row_at(self, vaddr: int) -> Row | None:
        """Return the row of an address; None if the image has none, or one that is malformed."""
        if self._image.machine is not Machine.X86_64 or not self._image.is_code(vaddr):
            return None
        try:
            function = self._table.find(vaddr - self._image.base)
            rva = vaddr - self._image.base
            return _row_of(StackPointer()) if function is None else self._row(function, rva)
        except FormatError as error:
            if not self._has_reported:
                self._has_reported = True
                self._report(error)
            return None

    def is_leaf(self, vaddr: int) -> bool:
        """Return whether an address lies in no function of `.pdata`: code there calls nothing."""
        try:
            return self._table.find(vaddr - self._image.base) is None
        except FormatError:
            return False

    @cached_property
    def _table(self) -> UnwindTable:
        return UnwindTable(self._image)

    def _row(self, function: RuntimeFunction, rva: int) -> Row | None:
        chain = self._table.chain(function)
        if rva - function.begin >= chain[0].prologue_bytes:
            code = bytes(self._image.read(self._image.base + rva, function.end - rva))
            pointer = read_epilogue(code, chain[0].frame_register, lambda end: self._leaves(function, rva + end))
            if pointer is not None:
                in_call = self._is_in_call(function, rva)
                if in_call is None:
                    return None
                if not in_call:
                    return _row_of(pointer)
        pointer = StackPointer()
        for depth, info in enumerate(chain):
            self._undo(info, rva - function.begin if depth == 0 else 1 << 32, pointer, function)
        return _row_of(pointer)

    def _leaves(self, function: RuntimeFunction, target: int) -> bool:
        """Return whether a jump to an RVA leaves a function whose frame is gone: what it leads to has no frame yet."""
        there = self._table.find(target)
        if there is None:
            return self._image.is_code(self._image.base + target)
        return target == there.begin != function.begin and self._table.read(there).chained is None

    def _is_in_call(self, function: RuntimeFunction, rva: int) -> bool | None:
        """Return whether an RVA is that of the last byte of a call; None if the function cannot be decoded.

        Frames that called are looked up at the return address less one, in the middle of an instruction.
        """
        if call_ending_at(self._image, self._image.base + rva + 1).kind is CallKind.NONE:
            return False
        size_bytes = function.end - function.begin
        code = self._image.read(self._image.base + function.begin, min(size_bytes, _DECODE_LIMIT_BYTES))
        ends = find_call_ends(code) if len(code) == size_bytes else None
        return None if ends is None else rva + 1 - function.begin in ends

    def _undo(self, info: UnwindInfo, offset: int, pointer: StackPointer, function: RuntimeFunction) -> None:
        """Move a stack pointer to where it was before the prologue that `info` describes, of which `offset` has run."""
        done = [each for each in info.codes if each.operation == u.EPILOG or each.offset <= offset]
        done = done if offset < info.prologue_bytes else list(info.codes)
        frame = pointer.place
        has_frame = any(each.operation == u.SET_FPREG for each in done) or bool(info.flags & u.CHAINED)
        if info.frame_register and has_frame:
            register = DWARF_NUMBER[info.frame_register]
            if register in pointer.saved:
                raise self._error(function, "the frame register is restored before the stack pointer")
            frame = register, -info.frame_offset
        for code in done:
            if pointer.is_machine_frame:
                raise self._error(function, "codes follow a machine frame")
            self._undo_one(code, frame, pointer, function)

    def _undo_one(
        self, code: u.UnwindCode, frame: tuple[int, int], pointer: StackPointer, function: RuntimeFunction
    ) -> None:
        if code.operation == u.PUSH_NONVOL:
            if code.number == _RSP_OF_MICROSOFT:
                raise self._error(function, "the stack pointer was pushed")
            pointer.pop(DWARF_NUMBER[code.number])
        elif code.operation in (u.ALLOC_LARGE, u.ALLOC_SMALL):
            pointer.add(code.value)
        elif code.operation == u.SET_FPREG:
            pointer.place = frame
        elif code.operation in (u.SAVE_NONVOL, u.SAVE_NONVOL_FAR):
            if code.number == _RSP_OF_MICROSOFT:
                raise self._error(function, "the stack pointer was saved")
            pointer.saved[DWARF_NUMBER[code.number]] = frame[0], frame[1] + code.value
        elif code.operation == u.PUSH_MACHFRAME:
            pointer.add(_WORD_BYTES * code.number)  # the number of an error
            pointer.is_machine_frame = True

    def _error(self, function: RuntimeFunction, problem: str) -> FormatError:
        return FormatError(self._image.path, "unwind information", function.info, problem)


def _row_of(pointer: StackPointer) -> Row:
    """Return the row of a frame whose stack pointer has come to the return address."""
    blocks = bytearray(1)  # an expression is never at 0
    columns = np.zeros(rules.WIDTH, np.uint64)

    def put(register: int, kind: int, value: int) -> None:
        slot = rules.FIRST + 2 * register
        columns[slot : slot + 2] = kind, value & _MASK

    def block(place: tuple[int, int], *, after: bytes = b"") -> int:
        at, operations = len(blocks), bytes([_BREG0 + place[0]]) + _sleb(place[1]) + after
        blocks.extend(bytes([len(operations)]) + operations)
        return at

    register, offset = pointer.place
    columns[rules.RETURN_ADDRESS], columns[rules.FLAGS] = RIP, rules.HAS_ONE_STACK
    if pointer.is_machine_frame:
        columns[rules.FLAGS] |= np.uint64(rules.IS_SIGNAL_FRAME)
        columns[rules.CFA_REGISTER] = rules.CFA_EXPRESSION
        columns[rules.CFA_OFFSET] = block((register, offset + _CALLER_SP), after=bytes([_DEREF]))
        put(RIP, rules.EXPRESSION, block(pointer.place))
    else:
        columns[rules.CFA_REGISTER], columns[rules.CFA_OFFSET] = register, (offset + _WORD_BYTES) & _MASK
        put(RIP, rules.OFFSET, -_WORD_BYTES)
    for each in _KEPT:
        put(each, rules.SAME_VALUE, 0)
    for each, place in pointer.saved.items():
        if place[0] == register and not pointer.is_machine_frame:
            put(each, rules.OFFSET, place[1] - offset - _WORD_BYTES)
        else:
            put(each, rules.EXPRESSION, block(place))
    return Row(columns, FrameSection("", "", memoryview(bytes(blocks)), 0, Machine.X86_64))


def _sleb(value: int) -> bytes:
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value & 0x7F])
