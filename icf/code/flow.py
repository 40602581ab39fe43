"""Runs the kernels that follow values through functions, and allocates their memory."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.code import operations as op
from icf.code._flow import follow
from icf.code.imports import is_endless
from icf.columns import I64, U8, U64
from icf.elf.types import Machine
from icf.threads import in_threads

if TYPE_CHECKING:
    from icf.image import AnyImage

_ROWS = 1 << 14  # of a batch of functions, unless one of them has more
_LABELS = 1 << 8
_FOUND = 1 << 14
_FEW = 1 << 6  # functions: one thread follows them sooner than two
_LIMIT = 1 << 62  # of addresses of functions


class Convention(NamedTuple):
    """The registers of a machine, as functions use them; sets are bits."""

    register_count: int  # and one
    stack_pointer: int
    first_argument: int
    second_argument: int  # if it may be the object, as after a hidden pointer to the result; else -1
    kept: int  # by calls
    arguments: int


_X86_64 = Convention(17, 4, 7, 6, 1 << 3 | 1 << 4 | 1 << 5 | 0xF << 12, 1 << 7 | 1 << 6 | 1 << 2 | 1 << 1 | 3 << 8)
# rcx, rdx, r8 and r9; rsi and rdi are kept, too. The object is in rcx, also where the result is a structure (Microsoft,
# "x64 calling convention")
_WINDOWS_X86_64 = Convention(17, 4, 1, -1, 0x3 << 3 | 0x7 << 5 | 0xF << 12, 1 << 1 | 1 << 2 | 3 << 8)
_AARCH64 = Convention(33, 31, 0, -1, 0x7FF << 19 | 1 << 31, 0xFF)


def convention_of(image: AnyImage) -> Convention:
    """Return how functions of an image use registers."""
    if image.machine is Machine.AARCH64:
        return _AARCH64
    return _WINDOWS_X86_64 if image.format == "PE" else _X86_64


class _Scratch:
    """The memory in which one thread follows functions; see the kernel."""

    def __init__(self, register_count: int) -> None:
        self._register_count = register_count
        self._rows = _ROWS // 2
        self.make_room_for_code()
        self.make_room_for_labels(_LABELS)
        self.memory = np.empty((2 * op.KEEP, 4), np.uint64)
        self.found = np.empty((_FOUND, op.FOUND_COLUMN_COUNT), np.uint64)

    def make_room_for_code(self) -> None:
        """Take twice the room for the operations of functions."""
        self._rows *= 2
        self.ops = np.empty((self._rows, op.COLUMN_COUNT), np.int64)
        self.label = np.empty(self._rows, np.int64)
        self.nodes = np.empty((self._rows + op.TAIL_ROWS, 3), np.uint64)

    def make_room_for_labels(self, count: int) -> None:
        """Take room for so many labels."""
        self.origin, self.offset = (np.empty((count, self._register_count), np.uint64) for _ in range(2))


class Flow:
    """Follows functions in the code `text` at `vaddr`.

    `starts` are the functions that it may call, ascending. `keepers` are those that follow the calling convention; if
    it is empty, all do.
    """

    def __init__(
        self, image: AnyImage, text: memoryview, vaddr: int, starts: U64, keepers: U64, threads: int = 1
    ) -> None:
        self._starts = starts[starts < _LIMIT].astype(np.int64)
        self._keepers = keepers[keepers < _LIMIT].astype(np.int64)
        self._machine, self._text, self._vaddr = image.machine, text, vaddr
        *registers, self._arguments = convention_of(image)
        self._registers = registers
        endless = [stub for stub, name in image.plt_stubs.items() if is_endless(name)]
        self._endless = np.array(sorted(endless), np.int64)
        self._threads, self._spare = threads, list[_Scratch]()

    def follow(self, functions: I64, landings: I64, edges: I64, *, everything: bool = True) -> tuple[U64, U8]:
        """Follow `functions` (start and end of each); return rows and states as the kernel does.

            landings  where other code may jump into them
            edges     jumps in them, and their targets in the same function; both ascend

        Without `everything`, code to which no known path leads is left out.
        """
        landings, edges = np.ascontiguousarray(landings), np.ascontiguousarray(edges)
        count = self._threads if len(functions) > _FEW else 1
        cuts = [len(functions) * part // count for part in range(count + 1)]
        parts = [np.ascontiguousarray(functions[first:last]) for first, last in pairwise(cuts)]
        done = in_threads(lambda part: self._follow(part, landings, edges, everything), parts, count)
        found, states = zip(*done, strict=True)
        return np.concatenate(found), np.concatenate(states)

    def _follow(self, functions: I64, landings: I64, edges: I64, everything: bool) -> tuple[U64, U8]:
        """Follow some functions in this thread."""
        try:
            scratch = self._spare.pop()
        except IndexError:  # other threads use all
            scratch = _Scratch(self._registers[0])
        facts = np.array([*self._registers, everything, self._arguments], np.int64)
        status, result = np.zeros(len(functions), np.uint8), np.zeros(op.RESULT_SIZE, np.int64)
        first_row = np.empty(len(functions) + 1, np.int64)
        found = [scratch.found[:0]]
        at = 0
        while at < len(functions):
            self._decode(functions, at, scratch.ops, first_row, result)
            decoded = int(result[op.NEXT])
            if decoded == at:
                scratch.make_room_for_code()
                continue
            while at < decoded:
                follow(
                    scratch.ops.data, first_row.data, functions.data, at, decoded, facts.data, landings.data,
                    edges.data, self._endless.data, self._keepers.data, self._starts.data, scratch.label.data,
                    scratch.nodes.data, scratch.origin.data, scratch.offset.data, scratch.memory.data,
                    scratch.found.data, status.data, result.data,
                )  # fmt: skip
                at, count, short_of = result[: op.KNOWN].tolist()
                found.append(scratch.found[:count].copy())
                if short_of == op.LABELS:
                    scratch.make_room_for_labels(2 * len(scratch.origin))
                elif short_of == op.FOUND_ROWS and count == 0:
                    scratch.found = np.empty((2 * len(scratch.found), op.FOUND_COLUMN_COUNT), np.uint64)
        self._spare.append(scratch)
        return np.concatenate(found), status

    def _decode(self, functions: I64, first: int, ops: I64, first_row: I64, result: I64) -> None:
        arguments = ops.data, first_row.data, result.data
        if self._machine is Machine.AARCH64:
            from icf.code import _aarch64

            _aarch64.decode(self._text, self._vaddr, functions.data, first, *arguments)
        else:
            from icf.code import _x86_64
            from icf.code.x86_64_opcodes import OPCODES

            _x86_64.decode(self._text, self._vaddr, functions.data, first, OPCODES.data, *arguments)
