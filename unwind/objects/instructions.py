"""The instructions of one function as operations on registers, with the rows that its jumps lead to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from icf.code import operations as op
from icf.code.rows import decode_function
from icf.elf.image import Image

_BYTES_LIMIT = 1 << 16
_NEAR_ROWS = 16
CALLS = (op.CALL, op.CALL_VALUE)
ENDS = (op.JUMP, op.JUMP_VALUE, op.STOP)


class Operation(NamedTuple):
    """A row of `icf.code.operations`.

    Of a direct jump or call `value` is where it leads, and `target` the row there; -1: out of the code.
    """

    kind: int
    a: int
    b: int
    c: int
    value: int
    vaddr: int
    target: int


class Instructions:
    """The operations of all parts of a function, by address; none if its code cannot be read as a whole."""

    def __init__(self, image: Image, ranges: Sequence[tuple[int, int]]) -> None:
        self.rows: list[Operation] = []
        self._vaddrs: list[int] = []
        self._parts: list[tuple[int, int, int, int]] = []  # start and end, first row and end of its rows
        decoded: list[tuple[int, list[list[int]]]] = []
        if sum(high - low for low, high in ranges) > _BYTES_LIMIT:
            return
        for low, high in sorted(ranges):
            code = image.read(low, high - low)
            if not 0 < high - low == len(code):
                return
            rows: list[list[int]] = decode_function(code, image.machine).tolist()
            if any(row[op.KIND] == op.BAD for row in rows):
                return
            self._parts.append((low, high, len(self._vaddrs), len(self._vaddrs) + len(rows)))
            self._vaddrs += [low + row[op.AT] for row in rows]
            decoded.append((low, rows))
        for low, rows in decoded:
            for kind, a, b, c, value, at in rows:
                is_direct = kind in (op.JUMP, op.BRANCH, op.CALL)
                self.rows.append(
                    Operation(kind, a, b, c, value, low + at, self.row_at(low + value) if is_direct else -1)
                )

    def row_at(self, vaddr: int) -> int:
        """Return the first row from an address on; -1 if that is not in the function."""
        for low, high, first, end in self._parts:
            if low <= vaddr < high:
                return bisect_left(self._vaddrs, vaddr, first, end)
        return -1

    def row_of_call(self, vaddr: int) -> int:
        """Return the first row of the call in which an address lies; -1 if there is none."""
        for low, high, first, end in self._parts:
            if low <= vaddr < high:
                last = bisect_right(self._vaddrs, vaddr, first, end) - 1
                if last >= first and self.rows[last].kind in CALLS:
                    return bisect_left(self._vaddrs, self._vaddrs[last], first, end)
        return -1

    def is_loaded(self, row: int) -> bool:
        """Return whether what a jump goes to was loaded from one place before, not from a table or computed."""
        register = self.rows[row].b
        for each in self.rows[max(0, row - _NEAR_ROWS) : row][::-1]:
            if each.kind in CALLS or each.kind in ENDS or each.kind in (op.BRANCH, op.FORGET):
                return False
            if each.kind == op.KILL and each.a >> register & 1:
                return False
            if each.kind not in (op.KILL, op.STORE, op.STORE_ANY) and each.a == register:
                return each.kind == op.LOAD
        return False

    def labels(self) -> set[int]:
        """Return the rows where paths may meet, and those that follow no other."""
        found = {row.target for row in self.rows if row.kind in (op.JUMP, op.BRANCH) and row.target >= 0}
        found.update(idx + 1 for idx, row in enumerate(self.rows[:-1]) if row.kind in ENDS)
        return found
