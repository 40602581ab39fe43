"""Unwinds stacks of one address space.

    steps = Steps(machine)                           # shared by the address spaces of a recording
    walker = Walker(steps, row_at)                   # row_at(run-time address) -> Row or None
    walk = walker.walk(registers, memory, ranges)    # registers: DWARF number -> value
    for frame in walk.frames:
        print(hex(frame.pc), frame.is_call, frame.loses_caller)

A step is found once for each address and kept by its contents: the frames of a whole program have some thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from icf.columns import U64
from icf.dwarf.cfi import rules
from icf.dwarf.cfi.frames import Row
from icf.elf.types import Machine
from icf.errors import FormatError
from unwind.walk import _walk, columns
from unwind.walk.frame import WalkedFrame

FRAME_LIMIT = 4096
_STEP_LIMIT = 1 << 16
_KNOWN_LIMIT = 1 << 18  # addresses
_FIRST_PLACES = 1 << 10


class End(IntEnum):
    """Why a walk ended."""

    END_OF_STACK = columns.END_OF_STACK
    NO_CALL_FRAMES = columns.NO_CALL_FRAMES  # the last frame is in code that has no call frame information
    NO_MEMORY = columns.NO_MEMORY  # what the last frame's rules need was not recorded
    NOT_GROWING = columns.NOT_GROWING  # the last frame's CFA is not above that of the frame it called
    BAD_EXPRESSION = columns.BAD_EXPRESSION
    OUT_OF_FRAMES = columns.OUT_OF_FRAMES


_ENDS = {each.value: each for each in End}


@dataclass(eq=False, slots=True)
class Walk:
    """The result: u64[n, FRAME_WIDTH], and why there are no more frames. Overwritten by the next walk of the walker."""

    columns: U64
    end: End
    exact_count: int  # frames whose address is a program counter

    @property
    def frames(self) -> list[WalkedFrame]:
        """The frames, innermost first."""
        return [_frame(values) for values in self.columns.tolist()]

    def addresses(self) -> list[int]:
        """Return the address of each frame."""
        addresses: list[int] = self.columns[:, columns.PC].tolist()
        return addresses

    def exact(self) -> list[int]:
        """Return the indices of frames whose address is a program counter."""
        if self.exact_count == 1:
            return [0]
        at: list[int] = np.flatnonzero(self.columns[:, columns.FLAGS] & np.uint64(columns.IS_EXACT)).tolist()
        return at


class Steps:
    """Distinct rows of call frame information, with their expressions; row 0 stands for none."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._rows: U64 = np.zeros((256, rules.WIDTH), np.uint64)
        self.row_words = self._rows.data
        self.blocks = memoryview(bytes(1))  # an expression is never at 0
        self._numbers: dict[bytes, int] = {}
        self._blocks_at: dict[bytes, int] = {}

    def number(self, row: Row | None) -> int:
        """Return the number of a row, which is kept; 0 for one whose expressions cannot be read."""
        if row is None:
            return 0
        step = row.columns.copy()
        step[rules.START] = step[rules.END] = step[rules.ARGS_SIZE] = 0
        try:
            if step[rules.CFA_REGISTER] == rules.CFA_EXPRESSION:
                step[rules.CFA_OFFSET] = self._block(row, int(step[rules.CFA_OFFSET]))
            kinds = step[rules.FIRST :: 2]
            for register in np.flatnonzero(kinds >= rules.EXPRESSION).tolist():
                at = rules.FIRST + 2 * register + 1
                step[at] = self._block(row, int(step[at]))
        except FormatError:
            return 0
        key = step.tobytes()
        number = self._numbers.get(key)
        if number is None:
            number = len(self._numbers) + 1
            if number >= _STEP_LIMIT:
                return 0
            if number >= len(self._rows):
                self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
                self.row_words = self._rows.data
            self._rows[number] = step
            self._numbers[key] = number
        return number

    def _block(self, row: Row, offset: int) -> int:
        operations = row.block(offset)
        at = self._blocks_at.get(operations)
        if at is None:
            at = self._blocks_at[operations] = len(self.blocks)
            self.blocks = memoryview(self.blocks.tobytes() + _uleb(len(operations)) + operations)
        return at


class Walker:
    """Unwinds the stacks of one address space; `row_at` finds the row of a run-time address."""

    def __init__(self, steps: Steps, row_at: Callable[[int], Row | None], frame_limit: int = FRAME_LIMIT) -> None:
        self._steps, self._row_at = steps, row_at
        self._count = 0  # of addresses that are known
        self._keys: U64 = np.zeros(_FIRST_PLACES, np.uint64)
        self._values: U64 = np.zeros(_FIRST_PLACES, np.uint64)
        # the kernel and single values go through views, which cost less than an array
        self._key_words, self._value_words = self._keys.data, self._values.data
        state: U64 = np.zeros(columns.STATE_WIDTH, np.uint64)
        state[columns.MACHINE_IS_AARCH64] = steps.machine is Machine.AARCH64
        self._state, self.registers = state.data, state[columns.STATE_REGISTERS :]
        self._room = np.zeros(rules.REGISTER_COUNT + columns.STACK_LIMIT, np.uint64).data
        self._out: U64 = np.zeros((frame_limit, columns.FRAME_WIDTH), np.uint64)
        self._out_words = self._out.data
        self._range = np.zeros((1, 3), np.uint64).data
        self._addresses: U64 = np.zeros(2 * frame_limit, np.uint64)  # of many stacks

    def walk(
        self, registers: Mapping[int, int], memory: bytes | memoryview, ranges: Sequence[tuple[int, int, int]]
    ) -> Walk:
        """Return the frames, innermost first: at least one.

        Args:
            registers: those of the innermost frame, by DWARF number; the program counter is 16 on x86-64, 32 on
                AArch64.
            memory: what was copied of the process, in one piece.
            ranges: start and end of each part of its address space that was copied, and where in `memory` it is.
        """
        self.registers.fill(0)
        for number, value in registers.items():
            self.registers[number] = value
        known = sum(1 << number for number in registers)
        ascending = np.array(sorted(ranges), np.uint64).reshape(-1, 3)
        return self.walk_registers(known, memoryview(memory), ascending.data)

    def walk_registers(self, known: int, memory: memoryview, ranges: memoryview) -> Walk:
        """Return the frames that begin with what the caller has put into `self.registers`.

        `known`: bit n says whether register n is known; `ranges`: u64[n, 3], ascending.
        """
        state, steps = self._state, self._steps
        state[columns.COUNT] = state[columns.LAST_CFA] = state[columns.EXACT_COUNT] = 0
        state[columns.STATE_KNOWN] = known
        state[columns.STATE_FLAGS] = columns.IS_EXACT
        while True:
            reason = _walk.walk(
                self._key_words, self._value_words, steps.row_words, steps.blocks, memory, ranges, state, self._room,
                self._out_words,
            )  # fmt: skip
            if reason != columns.NEEDS_STEP:
                break
            self._learn(state[columns.WANTED])
        return Walk(self._out[: state[columns.COUNT]], _ENDS[reason], state[columns.EXACT_COUNT])

    def walk_copies(self, known: int, order: memoryview, buffer: memoryview, copies: memoryview) -> U64:
        """Walk stacks that were copied, and return their addresses; `copies` gets where those of each are.

        Args:
            known: bit n says whether register n is known.
            order: u64[m, 2]: which of the registers that were copied is which, by DWARF's numbers.
            buffer: has registers, u64 each, and stacks.
            copies: u64[n, COPY_WIDTH]: where they are, as `columns` has it.
        """
        steps, first = self._steps, 0
        while True:
            first, reason = _walk.walk_copies(
                self._key_words, self._value_words, steps.row_words, steps.blocks, buffer, copies, first, order, known,
                self._range, self._state, self._room, self._out_words, self._addresses.data,
            )  # fmt: skip
            if first == len(copies):
                return self._addresses
            if reason == columns.NEEDS_STEP:
                self._learn(self._state[columns.WANTED])
            else:
                self._addresses = np.concatenate([self._addresses, np.zeros_like(self._addresses)])

    def _learn(self, address: int) -> None:
        if 2 * (self._count + 1) > len(self._keys):
            self._grow()
        self._put(address, self._steps.number(self._row_at(address)))
        self._count += 1

    def _put(self, address: int, number: int) -> None:
        mask = len(self._keys) - 1
        at = (address ^ address >> 17) & mask
        while self._key_words[at]:
            at = (at + 1) & mask
        self._key_words[at], self._value_words[at] = address + 1, number

    def _grow(self) -> None:
        if self._count >= _KNOWN_LIMIT:
            self._keys.fill(0)
            self._count = 0
            return
        taken = np.flatnonzero(self._keys)
        keys, values = self._keys[taken].tolist(), self._values[taken].tolist()
        self._keys = np.zeros(2 * len(self._keys), np.uint64)
        self._values = np.zeros(len(self._keys), np.uint64)
        self._key_words, self._value_words = self._keys.data, self._values.data
        for key, value in zip(keys, values, strict=True):
            self._put(key - 1, value)


def _frame(values: list[int]) -> WalkedFrame:
    flags, known = values[columns.FLAGS], values[columns.KNOWN]
    registers = values[columns.REGISTERS :]
    return WalkedFrame(
        values[columns.PC],
        not flags & columns.IS_EXACT,
        values[columns.CFA],
        [value if known >> number & 1 else None for number, value in enumerate(registers)],
        bool(flags & columns.IS_SIGNAL),
        bool(flags & columns.LOSES_CALLER),
    )


def _uleb(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
