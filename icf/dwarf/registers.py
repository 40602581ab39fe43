"""The variables of functions that are in registers at given addresses.

    DW_TAG_variable e       type Expression *, location list 3: 0x1139..0x1142 DW_OP_reg5
    at 0x1140               e is in register 5 (rdi)

Parameters count, and those of inlined calls. Scopes are not read, so that a variable with one location for all of its
scope may be there at any address; such are found in functions alone that have others, with lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from icf.contents import Contents
from icf.dwarf import columns as col
from icf.dwarf._registers import read_registers
from icf.dwarf.children import ChildReader
from icf.dwarf.restored import find_restored
from icf.elf.image import Image
from icf.sets import distinct, distinct_rows, is_in, runs

ANYWHERE = -1
_FOUND = 1 << 10
_TAIL_BYTES = 1 << 16  # of a section are read after the start of the last list, and more if that is longer
_FUNCTIONS = 1 << 6  # read together: the variables of a program are more than all else that the pass keeps of it
_FIRST, _LAST = 0x50, 0x6F  # DW_OP_reg0, DW_OP_reg31


class Asked(NamedTuple):
    """What is asked of one function."""

    die: int
    start: int  # where its code begins
    addresses: Sequence[tuple[int, int]]  # and bits of registers


class InRegister(NamedTuple):
    """A variable in a register."""

    asked: int  # index
    address: int  # index in `Asked.addresses`; ANYWHERE: in all of its scope, wherever that is
    register: int
    type: int  # the DIE of the variable's type, or of that of its abstract instance; 0 for none


class RegisterReader:
    """Reads the variables of one image."""

    def __init__(self, image: Image, reader: ChildReader) -> None:
        self._image, self._reader, self._debug = image, reader, reader.debug

    def read(self, asked: Sequence[Asked]) -> list[InRegister]:
        """Return the variables in the registers; `asked` ascends by DIE. Those of split units are not read."""
        found = [np.empty((0, 4), np.int64)]
        for first in range(0, len(asked), _FUNCTIONS):
            found.append(self._read(asked[first : first + _FUNCTIONS]))
            found[-1][:, 0] += first
        return [InRegister(*row) for row in np.concatenate(found).tolist()]

    def _read(self, asked: Sequence[Asked]) -> I64:
        dies = np.array([each.die for each in asked], np.uint64)
        rows = self._reader.read(dies, variables=True)
        unit = self._debug.unit_of(rows[:, col.L_DIE])
        is_own = (rows[:, col.L_TAG] != col.TAG_SUBPROGRAM) & (unit >= 0) & (self._debug.units[unit, col.SHIFT] == 0)
        rows, unit = rows[is_own], unit[is_own]
        is_new = self._debug.units[unit, col.VERSION] >= 5
        lists = [
            self._in_lists(asked, rows[is_new], unit[is_new], ".debug_loclists"),
            self._in_lists(asked, rows[~is_new], unit[~is_new], ".debug_loc"),
        ]
        owners = distinct(np.concatenate([found[:, 0] for found in lists]).astype(np.uint64))
        found = np.concatenate([*lists, self._in_blocks(asked, rows, unit, owners)])
        return distinct_rows(np.column_stack([found[:, :3], self._types(*found[:, 3:].T)]))

    def _types(self, types: I64, origins: I64) -> I64:
        """Return the types of variables, for those without one that of the DIE which they refer to."""
        lacks_type = (types == 0) & (origins != 0)
        if not lacks_type.any():
            return types
        asked = distinct(origins[lacks_type]).astype(np.uint64)
        rows = self._reader.read(asked)[::-1]
        known = np.zeros(len(asked), np.int64)
        known[rows[:, col.L_OWNER].astype(np.intp)] = rows[:, col.L_TYPE]  # of each its own row is assigned last
        types = types.copy()
        types[lacks_type] = known[np.searchsorted(asked, origins[lacks_type].astype(np.uint64))]
        return types

    def _in_lists(self, asked: Sequence[Asked], rows: U64, unit: I64, section: str) -> I64:
        """Return index in `asked`, index of the address, register, type and origin of the variables with lists."""
        is_list = rows[:, col.L_FLAGS] & np.uint64(col.L_LIST | col.L_LIST_INDEX) != 0
        rows, unit = rows[is_list], unit[is_list]
        start = rows[:, col.L_PLACE].copy()
        is_index = rows[:, col.L_FLAGS] & np.uint64(col.L_LIST_INDEX) != 0
        for each in distinct(unit[is_index]).tolist():
            some = is_index & (unit == each)
            start[some] = self._starts(each, start[some])
        is_there = start < len(self._lists[section])
        rows, unit, start = rows[is_there], unit[is_there], start[is_there]
        if not len(rows):
            return np.empty((0, 5), np.int64)
        first = np.cumsum([0, *(len(each.addresses) for each in asked)]).astype(np.uint64)
        owner = rows[:, col.L_OWNER].astype(np.intp)
        bodies = np.array([each.start for each in asked], np.uint64)
        lists = np.stack([start, unit.astype(np.uint64), first[owner], first[owner + 1], bodies[owner]], axis=1)
        places = np.array([place for each in asked for place in each.addresses], np.uint64).reshape(-1, 2)
        found = self._read_lists(lists, places, self._lists[section]).astype(np.intp)
        columns = (
            owner[found[:, 0]],
            found[:, 1] - first[owner[found[:, 0]]].astype(np.intp),
            found[:, 2],
            rows[found[:, 0], col.L_TYPE].astype(np.int64),
            rows[found[:, 0], col.L_ORIGIN].astype(np.int64),
        )
        return np.stack(columns, axis=1)

    def _read_lists(self, lists: U64, places: U64, section: Contents) -> U64:
        """Return what the kernel finds in these lists, of which only the start is known.

        It reads on to the end of the section, if need be, as long as a list has no end in what was read.
        """
        low, high = int(lists[:, 0].min()), int(lists[:, 0].max())
        lists[:, 0] -= np.uint64(low)
        out, result = np.empty((_FOUND, 3), np.uint64), np.zeros(2, np.uint64)
        addr = self._debug.addresses_of(lists[:, 1].astype(np.int64))
        tail_bytes = _TAIL_BYTES
        while True:
            part = section[low : high + tail_bytes]
            read_registers(lists.data, places.data, self._debug.units.data, part, addr, out.data, result.data)
            count, cut = result.tolist()
            if count > len(out):
                out = np.empty((count, 3), np.uint64)
            elif cut and high + tail_bytes < len(section):
                tail_bytes *= 16
            else:
                return out[:count]

    def _in_blocks(self, asked: Sequence[Asked], rows: U64, unit: I64, owners: U64) -> I64:
        """Return the same of the variables of these owners whose location holds in all of their scope."""
        is_block = rows[:, col.L_FLAGS] & np.uint64(col.L_BLOCK) != 0
        is_block &= is_in(rows[:, col.L_OWNER], owners)
        rows, unit = rows[is_block], unit[is_block]
        size_bytes, operation = np.zeros((2, len(rows)), np.uint8)
        for each, first, end in zip(*(column.tolist() for column in runs(unit)), strict=True):
            info = np.frombuffer(self._reader.bytes_of(each), np.uint8)
            place = (rows[first:end, col.L_PLACE] - self._debug.units[each, col.OFFSET]).astype(np.intp)
            size_bytes[first:end] = info[place - 1]
            operation[first:end] = info[np.minimum(place, len(info) - 1)]  # an empty block may end the unit
        is_register = (size_bytes == 1) & (operation >= _FIRST) & (operation <= _LAST)
        rows, register = rows[is_register], operation[is_register].astype(np.uint64) - np.uint64(_FIRST)
        bits = np.array([reduce(or_, (bits for _, bits in each.addresses), 0) for each in asked], np.uint64)
        is_asked = bits[rows[:, col.L_OWNER].astype(np.intp)] >> register & np.uint64(1) != 0
        rows, register = rows[is_asked], register[is_asked]
        anywhere = np.full(len(rows), ANYWHERE)
        columns = (rows[:, col.L_OWNER], anywhere, register, rows[:, col.L_TYPE], rows[:, col.L_ORIGIN])
        return np.stack([column.astype(np.int64) for column in columns], axis=1)

    def _starts(self, unit: int, indexes: U64) -> U64:
        """Return where the lists with these indexes begin; the end of the section if that is not known."""
        section = self._lists[".debug_loclists"]
        starts = np.full(len(indexes), len(section), np.uint64)
        base = int(self._debug.units[unit, col.LOCLISTS_BASE])
        if not 0 < base <= len(section):
            return starts
        size_bytes = int(self._debug.units[unit, col.OFFSET_SIZE])
        has_start = indexes < (len(section) - base) // size_bytes
        known = indexes[has_start].astype(np.intp)
        table = section[base : base + (int(known.max(initial=-1)) + 1) * size_bytes]
        words = np.frombuffer(table, "<u8" if size_bytes == 8 else "<u4")
        starts[has_start] = words[known].astype(np.uint64) + np.uint64(base)
        return starts

    @cached_property
    def _lists(self) -> dict[str, Contents]:
        """The sections of location lists, with true addresses in place of tombstones where relocations tell them."""
        file, found = self._image.debug, {}
        for name in (".debug_loclists", ".debug_loc"):
            contents = file.unkept(name)
            words = find_restored(file, name, contents)
            found[name] = contents if words is None else contents.edited(words.put)
        return found
