"""Where a function still holds the arguments that it was entered with: in which registers and places of its frame.

What debug information says of `this` need not be the object that the function was called for. Compilers make a loop of
a method that ends by calling itself for another object:

    void Node::visit() { work(); if (next) next->Node::visit(); }

        push %rbx; mov %rdi,%rbx
    1:  mov %rbx,%rdi; call work             rbx: the first object, later those after it
        mov 8(%rbx),%rbx; test %rbx,%rbx; jne 1b

`this` is in rbx, but only the first object has decided which function was called. So values are followed through the
code, from the entry to an address: a register or a place in the frame holds an argument there if it does on all paths.
Jump tables and landing pads are not read. A jump through a pointer, or an exception, may lead to any place in the code
but the straight line from the entry to the first label or call.
"""

from __future__ import annotations

from collections.abc import Sequence

from icf.code import operations as op
from icf.code.flow import convention_of
from icf.elf.image import Image
from icf.elf.types import Machine
from unwind.objects.instructions import CALLS, Instructions, Operation

_REGISTERS = {Machine.X86_64: (0, 2, 1, 3, 6, 7, 5, 4, *range(8, 16)), Machine.AARCH64: tuple(range(32))}
"""The numbers that registers have in instructions, by DWARF's."""
_SP_AT_ENTRY = {Machine.X86_64: -8, Machine.AARCH64: 0}  # less the CFA
_WORD_BYTES = 8
_STEP_LIMIT = 1 << 17
_ROUNDS = 8

_FRAME = -1
_Value = tuple[int, int]  # a register as it was at the entry, or _FRAME for the CFA; and what was added to that
_State = dict[tuple[bool, int], _Value]  # of registers (False), and of places in the frame (True), less the CFA


class Kept:
    """What the function keeps that is entered at `low`; `ranges` are its code.

    `has_pads`: an exception may lead to it from its calls. `left_to`: where a jump leads out of `ranges` that is not a
    tail call: to a part of the function that lies elsewhere. Then nothing is known.
    """

    def __init__(self, image: Image, ranges: Sequence[tuple[int, int]], low: int, *, has_pads: bool) -> None:
        self._registers, self._sp_at_entry = _REGISTERS[image.machine], (_FRAME, _SP_AT_ENTRY[image.machine])
        convention = convention_of(image)
        self._sp = False, convention.stack_pointer
        every = range(convention.register_count)
        self._lost_in_calls = [(False, register) for register in every if not convention.kept >> register & 1]
        self._has_pads = has_pads
        self.left_to: int | None = None
        self._code = Instructions(image, ranges)
        self._labels = self._code.labels()
        self._at: dict[int, _State] = {}  # by row, of the labels
        self._wild: _State | None = None  # what holds wherever a jump to an unknown place starts; None: there is none
        self._entry = self._code.row_at(low)
        stops = {*self._labels, *(idx + 1 for idx, row in enumerate(self._code.rows) if row.kind in CALLS)}
        self._straight = range(self._entry, min((idx for idx in stops if idx > self._entry), default=self._entry))
        self._is_known = self._entry >= 0 and self._follow()

    def argument_at(self, vaddr: int, place: int, *, is_call: bool, in_frame: bool) -> int | None:
        """Return the register, by DWARF's number, whose value at the entry is still in a place; None: not certain.

        Args:
            vaddr: before the instruction there, or before the call in which this lies.
            place: a register by DWARF's number, or `in_frame`, the distance from the CFA.
            is_call: whether `vaddr` lies in a call.
            in_frame: what `place` is.
        """
        if not (in_frame or place < len(self._registers)):
            return None
        key = in_frame, place if in_frame else self._registers[place]
        origin, added = self._at_vaddr(vaddr, is_call).get(key, (_FRAME, 0))
        return None if origin == _FRAME or added else self._registers.index(origin)

    def places_of(self, register: int, vaddr: int, *, is_call: bool) -> list[tuple[int, bool]]:
        """Return the places that still hold the value of a register at the entry, each as `argument_at` takes it.

        Args:
            register: by DWARF's number.
            vaddr: before the instruction there, or before the call in which this lies.
            is_call: whether `vaddr` lies in a call.
        """
        wanted = self._registers[register], 0
        state = self._at_vaddr(vaddr, is_call)
        return [
            (place if in_frame else self._registers.index(place), in_frame)
            for (in_frame, place), value in state.items()
            if value == wanted
        ]

    def _at_vaddr(self, vaddr: int, is_call: bool) -> _State:
        """Return what holds before an instruction, or before the call in which an address lies."""
        row = self._code.row_of_call(vaddr) if is_call else self._code.row_at(vaddr)
        return self._before(row) if self._is_known and row >= 0 else {}

    def _follow(self) -> bool:
        """Find what holds at each label; return whether that is known."""
        for _ in range(_ROUNDS):
            found = self._run()
            if found is None:
                return False
            before = None if self._wild is None else dict(self._wild)
            for state in found:
                if self._wild is None:
                    self._wild = state
                else:
                    _keep_common(self._wild, state)
            if self._wild == before:
                return True
        return False

    def _run(self) -> list[_State] | None:
        """Follow all paths; return what holds at jumps to unknown places; None if that is not known."""
        first: _State = {(False, register): (register, 0) for register in self._registers}
        self._at = {self._entry: first | {self._sp: self._sp_at_entry}}
        if self._wild is not None:
            self._at |= {label: dict(self._wild) for label in self._labels - {self._entry}}
        todo = list(self._at)
        wild: list[_State] = []
        left = _STEP_LIMIT
        while todo:
            row: int | None = todo.pop()
            state = dict(self._at[row]) if row is not None else {}
            while row is not None:
                left -= 1
                if not left or not self._step(row, state, wild):
                    return None
                operation = self._code.rows[row]
                if operation.kind in (op.JUMP, op.BRANCH) and self._meet(operation.target, state):
                    todo.append(operation.target)
                row = self._next(row, state)
                if row in self._labels:
                    if self._meet(row, state):
                        todo.append(row)
                    row = None
        return wild

    def _next(self, row: int, state: _State) -> int | None:
        """Return the row that control goes on to without a jump, with what holds there in `state`."""
        if self._code.rows[row].kind in (op.JUMP, op.JUMP_VALUE, op.STOP):
            return None
        if self._wild is not None and row + 1 not in self._straight:
            _keep_common(state, self._wild)
        return row + 1

    def _meet(self, label: int, state: _State) -> bool:
        """Keep at a label what the path that leads there agrees on; return whether that changes it."""
        if label < 0:
            return False
        if label not in self._at:
            self._at[label] = dict(state)
            return True
        return _keep_common(self._at[label], state)

    def _before(self, row: int) -> _State:
        """Return what holds before a row; nothing if no path leads there."""
        at = max((label for label in self._at if label <= row), default=-1)
        state = dict(self._at.get(at, {}))
        while 0 <= at < row:
            self._step(at, state, [])
            following = self._next(at, state)
            if following is None:
                return {}
            at = following
        return state

    def _step(self, row: int, state: _State, wild: list[_State]) -> bool:
        """Change `state` by an operation; return whether it is known what that does.

        `wild` gets what holds at a jump to an unknown place.
        """
        operation = self._code.rows[row]
        kind, a, b, _, value, _, target = operation
        is_framed = state.get(self._sp) != self._sp_at_entry
        if kind in CALLS:
            if kind == op.CALL and target >= 0 and target != self._entry:
                return False  # into the middle of the function
            for key in self._lost_in_calls:
                state.pop(key, None)
            if self._has_pads:
                wild.append(dict(state))
        elif kind == op.JUMP_VALUE:
            if is_framed or not self._code.is_loaded(row):  # else it is a tail call
                wild.append(dict(state))
        elif kind in (op.JUMP, op.BRANCH):
            if target < 0 and is_framed:
                self.left_to = value
                return False
        elif kind == op.FORGET:
            state.clear()
        elif kind == op.KILL:
            for key in [key for key in state if not key[0] and a >> key[1] & 1]:
                del state[key]
        elif kind == op.STORE:
            _store(state, operation)
        elif kind not in (op.STORE_ANY, op.STOP):
            new = None
            if kind in (op.COPY, op.ADD, op.LOAD) and (False, b) in state:
                origin, added = state[False, b]
                added += 0 if kind == op.COPY else value
                new = (origin, added) if kind != op.LOAD else state.get((True, added)) if origin == _FRAME else None
            state.pop((False, a), None)
            if new is not None:
                state[False, a] = new
        return True


def _store(state: _State, row: Operation) -> None:
    """Store to the frame. No other store changes what a compiler has put there: it has no address.

    What begins below a place of eight bytes ends there, unless it is a vector: both are aligned. The size of a store is
    an upper bound.
    """
    origin, added = state.get((False, row.b), (0, 0))
    if origin != _FRAME:
        return
    start = added + row.value
    end = start + row.a if row.a > _WORD_BYTES else start + 1
    for key in [key for key in state if key[0] and start - _WORD_BYTES < key[1] < end]:
        del state[key]
    if row.a == _WORD_BYTES and (False, row.c) in state:
        state[True, start] = state[False, row.c]


def _keep_common(known: _State, other: _State) -> bool:
    """Drop from `known` what `other` does not say; return whether there was any."""
    differing = [key for key, value in known.items() if other.get(key) != value]
    for key in differing:
        del known[key]
    return bool(differing)
