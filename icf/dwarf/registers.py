"""The variables of functions that are in registers at given addresses.

    DW_TAG_variable e       type Expression *, location list 3: 0x1139..0x1142 DW_OP_reg5
    at 0x1140               e is in register 5 (rdi)

Parameters count, and those of inlined calls. Scopes are not read, so that a variable with one location for all of its
scope may be there at any address; such are found in functions alone that have others, with lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.columns import U64
from icf.dwarf import columns as col
from icf.dwarf._registers import read_registers
from icf.dwarf.children import ChildReader
from icf.dwarf.restored import find_restored
from icf.elf.image import Image
from icf.sets import distinct, distinct_rows, is_in

ANYWHERE = -1
_FOUND = 1 << 10
_FIRST, _LAST = 0x50, 0x6F  # DW_OP_reg0, DW_OP_reg31


class Asked(NamedTuple):
    """What is asked of one function."""

    die: int
    start: int  # where its code begins
    addresses: Sequence[tuple[int, int]]  # and bits of registers


class Variable(NamedTuple):
    """What tells the type of a variable: the DIE of the type, or that of the variable's abstract instance; or 0."""

    type: int
    origin: int


class InRegister(NamedTuple):
    """A variable in a register."""

    asked: int  # index
    address: int  # index in `Asked.addresses`; ANYWHERE: in all of its scope, wherever that is
    register: int
    variable: Variable


class RegisterReader:
    """Reads the variables of one image."""

    def __init__(self, image: Image, reader: ChildReader) -> None:
        self._image, self._reader, self._debug = image, reader, reader.debug

    def read(self, asked: Sequence[Asked]) -> list[InRegister]:
        """Return the variables in the registers; `asked` ascends by DIE. Those of split units are not read."""
        dies = np.array([each.die for each in asked], np.uint64)
        rows = self._reader.read(dies, variables=True)
        rows = rows[rows[:, col.L_TAG] != col.TAG_SUBPROGRAM]
        unit = self._debug.unit_of(rows[:, col.L_DIE])
        rows, unit = rows[unit >= 0], unit[unit >= 0]
        is_own = self._debug.units[unit, col.SHIFT] == 0
        rows, unit = rows[is_own], unit[is_own]
        found = self._in_lists(asked, rows, unit)
        return found + self._in_blocks(rows, found)

    def _in_lists(self, asked: Sequence[Asked], rows: U64, unit: np.ndarray) -> list[InRegister]:
        is_list = rows[:, col.L_FLAGS] & np.uint64(col.L_LIST | col.L_LIST_INDEX) != 0
        rows, unit = rows[is_list], unit[is_list]
        start = rows[:, col.L_PLACE].copy()
        is_index = rows[:, col.L_FLAGS] & np.uint64(col.L_LIST_INDEX) != 0
        for each in distinct(unit[is_index]).tolist():
            some = is_index & (unit == each)
            start[some] = self._starts(each, start[some])
        first = np.cumsum([0, *(len(each.addresses) for each in asked)]).astype(np.uint64)
        owner = rows[:, col.L_OWNER].astype(np.intp)
        bodies = np.array([each.start for each in asked], np.uint64)
        lists = np.stack([start, unit.astype(np.uint64), first[owner], first[owner + 1], bodies[owner]], axis=1)
        places = np.array([place for each in asked for place in each.addresses], np.uint64).reshape(-1, 2)
        sections = self._lists[".debug_loclists"], self._lists[".debug_loc"]
        out = np.empty((_FOUND, 3), np.uint64)
        while (count := read_registers(
            np.ascontiguousarray(lists).data, places.data, self._debug.units.data, *sections, self._debug.addr, out.data
        )) > len(out):  # fmt: skip
            out = np.empty((count, 3), np.uint64)
        found = out[:count].astype(np.intp)
        columns = (
            owner[found[:, 0]],
            found[:, 1] - first[owner[found[:, 0]]].astype(np.intp),
            found[:, 2],
            rows[found[:, 0], col.L_TYPE],
            rows[found[:, 0], col.L_ORIGIN],
        )
        rows_found = zip(*(column.tolist() for column in columns), strict=True)
        return [
            InRegister(row, at, register, Variable(type_, origin)) for row, at, register, type_, origin in rows_found
        ]

    def _in_blocks(self, rows: U64, beside: list[InRegister]) -> list[InRegister]:
        owners = np.array(sorted({each.asked for each in beside}), np.uint64)
        is_block = rows[:, col.L_FLAGS] & np.uint64(col.L_BLOCK) != 0
        rows = rows[is_block & is_in(rows[:, col.L_OWNER], owners)]
        info = self._debug.info
        pairs = [info[place - 1 : place + 1] for place in rows[:, col.L_PLACE].tolist()]
        is_register = np.array([len(pair) == 2 and pair[0] == 1 and _FIRST <= pair[1] <= _LAST for pair in pairs], bool)
        operations = np.array([pair[-1] for pair, is_one in zip(pairs, is_register, strict=True) if is_one], np.uint64)
        rows = rows[is_register]
        columns = (rows[:, col.L_OWNER], operations, rows[:, col.L_TYPE], rows[:, col.L_ORIGIN])
        found = distinct_rows(np.stack(columns, axis=1)).tolist()
        return [InRegister(row, ANYWHERE, op - _FIRST, Variable(type_, origin)) for row, op, type_, origin in found]

    def _starts(self, unit: int, indexes: U64) -> U64:
        """Return where the lists with these indexes begin; the end of the section if that is not known."""
        section = self._lists[".debug_loclists"]
        nowhere = np.full(len(indexes), len(section), np.uint64)
        base = int(self._debug.units[unit, col.LOCLISTS_BASE])
        if not 0 < base <= len(section):
            return nowhere
        size_bytes = int(self._debug.units[unit, col.OFFSET_SIZE])
        words = np.frombuffer(section[base:], np.uint8)
        words = words[: len(words) // size_bytes * size_bytes].view("<u8" if size_bytes == 8 else "<u4")
        is_in = indexes < len(words)
        nowhere[is_in] = words[indexes[is_in].astype(np.intp)].astype(np.uint64) + np.uint64(base)
        return nowhere

    @cached_property
    def _lists(self) -> dict[str, memoryview]:
        """The sections of location lists, with true addresses in place of tombstones where relocations tell them."""
        file, found = self._image.debug, {}
        for name in (".debug_loclists", ".debug_loc"):
            words = find_restored(file, name, file.streamed(name))
            found[name] = file.contents(name) if words is None else file.private_copy(name)
            if words is not None:
                words.put(found[name], 0)
        return found
