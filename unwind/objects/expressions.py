"""Evaluates DWARF expressions in a frame (DWARF 5, 2.5 and 2.6): where a value is, or what it is.

    DW_OP_fbreg -24                         MEMORY    at the frame base less 24
    DW_OP_reg3                              REGISTER  3
    DW_OP_breg3 8, DW_OP_stack_value        VALUE     register 3 plus 8
    DW_OP_entry_value(reg5), stack_value    VALUE     what register 5 was when the function was entered

Operations on the stack run in a kernel (`unwind.walk._expressions`), which pauses at those that need more: memory,
the frame, types, other frames. Nothing is guessed: what cannot be computed raises `Unknown` with its reason. All
expressions that one question leads to share one limit of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from icf.dwarf.constants import DW_AT_frame_base
from icf.dwarf.locations import expression_at
from icf.dwarf.scopes import Function
from icf.dwarf.typenames import Kind
from icf.errors import FormatError
from icf.reader import Reader
from unwind.objects.activation import Activation
from unwind.walk import _expressions, columns
from unwind.walk.frame import Memory

_MASK = (1 << 64) - 1
_OPERATION_LIMIT = 10_000  # of all expressions for one value
_NESTING_LIMIT = 32
_VALUE_BYTES_LIMIT = 1 << 12
_WORD_BYTES = 8
# What the kernel leaves to others; DWARF 5, 7.7.1, and GNU's older numbers
_ADDR, _DEREF, _DEREF_SIZE, _FBREG, _CALL_FRAME_CFA = 0x03, 0x06, 0x94, 0x91, 0x9C
REG0, REG31, _REGX, _PIECE = 0x50, 0x6F, 0x90, 0x93
_IMPLICIT_VALUE, _STACK_VALUE, _GNU_UNINIT, _PARAMETER_REF = 0x9E, 0x9F, 0xF0, 0xFA
_IMPLICIT_POINTER, _ADDRX, _CONSTX, ENTRY_VALUE = (0xA0, 0xF2), (0xA1, 0xFB), (0xA2, 0xFC), (0xA3, 0xF3)
_CONST_TYPE, _REGVAL_TYPE, _DEREF_TYPE, _CONVERT = (0xA4, 0xF4), (0xA5, 0xF5), (0xA6, 0xF6), (0xA8, 0xF7, 0xA9, 0xF9)


class Lack(Enum):
    """Why a value is not known."""

    OPTIMIZED_OUT = "optimized out"
    NO_REGISTER = "in a register that was not recovered"
    NO_MEMORY = "in memory that was not recorded"
    NO_ENTRY_VALUE = "not known to its caller"
    IN_PROLOGUE = "not stored yet"
    NO_NUMBER = "not a number"
    REFUSED = "location cannot be evaluated"


class Unknown(Exception):
    """A value is not known."""

    def __init__(self, lack: Lack) -> None:
        super().__init__(lack.value)
        self.lack = lack


class Form(Enum):
    """What the number of a place is."""

    MEMORY = 0  # an address
    REGISTER = 1
    VALUE = 2  # the value itself
    BYTES = 3  # `data` is the value itself


class Place(NamedTuple):
    """Where a value is, or a part of it; `size_bytes` is 0 for all of it."""

    form: Form
    number: int = 0
    data: bytes = b""
    size_bytes: int = 0


EntryValue = Callable[[Activation, Function, bytes, int], int]


class Evaluator:
    """Evaluates the expressions of one question; `entry_value` finds values at the entry of a function.

    `entry_value` gets the frame, its function, the expression of a register, and the DIE of a parameter or 0.
    """

    def __init__(self, memory: Memory, entry_value: EntryValue) -> None:
        self._memory, self._entry_value = memory, entry_value
        self._left, self._depth = _OPERATION_LIMIT, 0

    def places(self, expression: memoryview, at: Activation, function: Function) -> list[Place]:
        """Return where the parts of a value are; raises `Unknown`."""
        self._depth += 1
        try:
            if self._depth > _NESTING_LIMIT:
                raise Unknown(Lack.REFUSED)
            return _Run(self, expression, at, function).places()
        except FormatError:
            raise Unknown(Lack.REFUSED) from None
        finally:
            self._depth -= 1

    def number(self, expression: memoryview, at: Activation, function: Function) -> int:
        """Return what an expression yields that is a value and no location, as at a call site."""
        (place,) = self._whole(self.places(expression, at, function))
        if place.form is Form.REGISTER:
            return self.register(at, place.number)
        if place.form is Form.BYTES:
            raise Unknown(Lack.REFUSED)
        return place.number

    def contents(self, places: list[Place], at: Activation, size_bytes: int) -> bytes:
        """Return the bytes of a value of this size."""
        if not 0 < size_bytes <= _VALUE_BYTES_LIMIT:
            raise Unknown(Lack.NO_NUMBER)
        if len(places) == 1 and not places[0].size_bytes:
            return self._bytes(places[0], at, size_bytes)
        if sum(place.size_bytes for place in places) < size_bytes:
            raise Unknown(Lack.OPTIMIZED_OUT)
        return b"".join(self._bytes(place, at, place.size_bytes) for place in places)[:size_bytes]

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return memory."""
        found = self._memory.read(address, size_bytes)
        if found is None or len(found) != size_bytes:
            raise Unknown(Lack.NO_MEMORY)
        return found

    @staticmethod
    def register(at: Activation, number: int) -> int:
        """Return a register."""
        value = at.register(number)
        if value is None:
            raise Unknown(Lack.NO_REGISTER)
        return value

    def frame_base(self, at: Activation, function: Function) -> int:
        """Return the frame base of a function."""
        die = function.scopes[0].die
        assert at.described is not None
        expression = expression_at(at.described.scopes.trees, die, DW_AT_frame_base, at.vaddr)
        if expression is None:
            raise Unknown(Lack.OPTIMIZED_OUT)
        return self.number(expression, at, function)

    def entry_value(self, at: Activation, function: Function, register: bytes, parameter: int = 0) -> int:
        """Return what a register, or a parameter, was when the function was entered."""
        return self._entry_value(at, function, register, parameter)

    def spend(self, left: int) -> int:
        """Take note of how many operations are left, and return how many an expression may run at once."""
        self._left -= left
        if self._left <= 0:
            raise Unknown(Lack.REFUSED)
        return min(self._left, columns.OPERATION_LIMIT)

    def _whole(self, places: list[Place]) -> list[Place]:
        if len(places) != 1 or places[0].size_bytes:
            raise Unknown(Lack.REFUSED)
        return places

    def _bytes(self, place: Place, at: Activation, size_bytes: int) -> bytes:
        if not 0 < size_bytes <= _VALUE_BYTES_LIMIT:
            raise Unknown(Lack.REFUSED)
        if place.form is Form.MEMORY:
            return self.read(place.number, size_bytes)
        data = place.data
        if place.form is not Form.BYTES:
            value = self.register(at, place.number) if place.form is Form.REGISTER else place.number
            data = value.to_bytes(_WORD_BYTES, "little")
        if len(data) < size_bytes:
            raise Unknown(Lack.REFUSED)
        return data[:size_bytes]


class _Run:
    """One expression while it runs."""

    def __init__(self, evaluator: Evaluator, expression: memoryview, at: Activation, function: Function) -> None:
        self._evaluator, self._at, self._function = evaluator, at, function
        self._bytes = expression
        self._room: memoryview = np.zeros(columns.STACK_LIMIT, np.uint64).data
        self._depth = 0
        self._reader = Reader(expression, "", "expression")
        self._place: Place | None = None  # what the last operation has named
        self._parts: list[Place] = []

    def places(self) -> list[Place]:
        if not len(self._bytes):
            raise Unknown(Lack.OPTIMIZED_OUT)
        registers, known = self._at.registers
        pos = 0
        while True:
            start, allowed = pos, self._evaluator.spend(1)
            outcome, pos, self._depth, left = _expressions.run(
                self._bytes, pos, registers, known, self._room, self._depth, allowed
            )
            self._evaluator.spend(allowed - left)
            if outcome == columns.UNKNOWN_REGISTER:
                raise Unknown(Lack.NO_REGISTER)
            if outcome == columns.BAD_OPERATION:
                raise Unknown(Lack.REFUSED)
            is_end = outcome == columns.NO_OPERATION
            if self._place is not None and not (
                pos == start if is_end else pos == start + 1 and self._bytes[start] in (_PIECE, _GNU_UNINIT)
            ):
                raise Unknown(Lack.REFUSED)  # something follows a location that is complete
            if is_end:
                break
            self._reader.pos = pos
            self._operate(self._bytes[pos - 1])
            pos = self._reader.pos
        if self._parts:
            return self._parts
        if self._place is None:
            self._place = Place(Form.MEMORY, self._pop())
        return [self._place]

    def _operate(self, opcode: int) -> None:
        evaluator, at, reader = self._evaluator, self._at, self._reader
        assert at.described is not None
        trees, unit = at.described.scopes.trees, self._function.scopes[0].die.unit
        if REG0 <= opcode <= REG31:
            self._place = Place(Form.REGISTER, opcode - REG0)
        elif opcode == _REGX:
            self._place = Place(Form.REGISTER, reader.uleb())
        elif opcode == _STACK_VALUE:
            self._place = Place(Form.VALUE, self._pop())
        elif opcode == _IMPLICIT_VALUE:
            self._place = Place(Form.BYTES, 0, bytes(reader.take(reader.uleb())))
        elif opcode == _PIECE:
            self._end_part(reader.uleb())
        elif opcode == _FBREG:
            self._push(evaluator.frame_base(at, self._function) + reader.sleb())
        elif opcode == _CALL_FRAME_CFA:
            if not at.frame.cfa:
                raise Unknown(Lack.NO_REGISTER)
            self._push(at.frame.cfa)
        elif opcode in (_DEREF, _DEREF_SIZE):
            self._load(reader.u8() if opcode == _DEREF_SIZE else _WORD_BYTES)
        elif opcode == _ADDR:
            self._push(reader.u64() + at.bias)
        elif opcode in _ADDRX or opcode in _CONSTX:
            address = trees.indexed_address(unit, reader.uleb())
            if address is None:
                raise Unknown(Lack.REFUSED)
            self._push(address + at.bias * (opcode in _ADDRX))
        elif opcode in ENTRY_VALUE:
            self._push(evaluator.entry_value(at, self._function, bytes(reader.take(reader.uleb()))))
        elif opcode == _PARAMETER_REF:
            parameter = trees.columns(unit)[0] + reader.u32()
            self._push(evaluator.entry_value(at, self._function, b"", parameter))
        elif opcode in _REGVAL_TYPE:
            register = evaluator.register(at, reader.uleb())
            self._push_typed(register.to_bytes(_WORD_BYTES, "little"))
        elif opcode in _DEREF_TYPE:
            size_bytes = reader.u8()
            self._push_typed(evaluator.read(self._pop(), size_bytes))
        elif opcode in _CONST_TYPE:
            kind = reader.uleb()
            self._push_as(kind, bytes(reader.take(reader.u8())))
        elif opcode in _CONVERT:
            self._push_typed(self._pop().to_bytes(_WORD_BYTES, "little"))
        elif opcode in _IMPLICIT_POINTER:
            raise Unknown(Lack.OPTIMIZED_OUT)
        elif opcode != _GNU_UNINIT:
            raise Unknown(Lack.REFUSED)

    def _push(self, value: int) -> None:
        if self._depth >= columns.STACK_LIMIT:
            raise Unknown(Lack.REFUSED)
        self._room[self._depth] = value & _MASK
        self._depth += 1

    def _pop(self) -> int:
        if not self._depth:
            raise Unknown(Lack.REFUSED)
        self._depth -= 1
        value: int = self._room[self._depth]
        return value

    def _load(self, size_bytes: int) -> None:
        if not 0 < size_bytes <= _WORD_BYTES:
            raise Unknown(Lack.REFUSED)
        self._push(int.from_bytes(self._evaluator.read(self._pop(), size_bytes), "little"))

    def _push_typed(self, data: bytes) -> None:
        self._push_as(self._reader.uleb(), data)

    def _push_as(self, type_offset: int, data: bytes) -> None:
        """Push a number of a type, extended to a word; only of a word can be computed with further on."""
        described = self._at.described
        assert described is not None
        if not type_offset:  # the generic type
            self._push(int.from_bytes(data[:_WORD_BYTES], "little"))
            return
        unit_start = described.scopes.trees.columns(self._function.scopes[0].die.unit)[0]
        found = described.types.at(unit_start + type_offset)
        size_bytes = found.size_bytes
        if found.kind in (Kind.OTHER, Kind.FLOAT) or not 0 < size_bytes <= min(len(data), _WORD_BYTES):
            raise Unknown(Lack.REFUSED)
        self._push(int.from_bytes(data[:size_bytes], "little", signed=found.kind is Kind.SIGNED))
        following = self._bytes[self._reader.pos : self._reader.pos + 1]
        if size_bytes < _WORD_BYTES and len(following) and following[0] not in (*_CONVERT, _STACK_VALUE):
            raise Unknown(Lack.REFUSED)  # wraps at its own size

    def _end_part(self, size_bytes: int) -> None:
        if not size_bytes or len(self._parts) >= columns.STACK_LIMIT:
            raise Unknown(Lack.REFUSED)
        if self._place is None and not self._depth:
            raise Unknown(Lack.OPTIMIZED_OUT)  # a part that has no place
        place = self._place or Place(Form.MEMORY, self._pop())
        self._parts.append(place._replace(size_bytes=size_bytes))
        self._place = None
