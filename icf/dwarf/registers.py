"""The variables of functions that are in registers at given addresses.

    DW_TAG_variable e       type Expression *, location list 3: 0x1139..0x1142 DW_OP_reg5
    at 0x1140               e is in register 5 (rdi)

Parameters count, and those of inlined calls. Scopes are not read, so that a variable with one location for all of its
scope may be there at any address; such are found in functions alone that have others, with lists.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from icf.contents import Contents
from icf.dwarf import columns as col
from icf.dwarf._registers import read_registers
from icf.dwarf.children import ChildReader
from icf.dwarf.restored import find_restored
from icf.elf.image import Image
from icf.sets import distinct, distinct_rows, is_in

ANYWHERE = -1
_FOUND = 1 << 10
_TAIL_BYTES = 1 << 16  # of a section are read after the start of the last list, and more if that is longer
_FUNCTIONS = 1 << 9  # read together: the variables of a program are more than all else that the pass keeps of it


class Asked(NamedTuple):
    """What is asked of some functions, by their DIEs, which ascend."""

    die: U64
    start: U64  # where the code begins
    first: I64  # first row of the columns that follow; one more than there are functions
    address: U64
    bits: U64  # of registers

    def part(self, first: int, end: int) -> Asked:
        """Return what is asked of some of the functions."""
        low, high = self.first[first], self.first[end]
        rows, addresses = slice(first, end), slice(low, high)
        start = self.first[first : end + 1] - low
        return Asked(self.die[rows], self.start[rows], start, self.address[addresses], self.bits[addresses])


class InRegister(NamedTuple):
    """Variables in registers."""

    asked: I64  # row of the function
    address: I64  # row of `Asked.address`; ANYWHERE: in all of its scope, wherever that is
    register: I64
    type: I64  # the DIE of the variable's type, or of that of its abstract instance; 0 for none


class RegisterReader:
    """Reads the variables of one image."""

    def __init__(self, image: Image, reader: ChildReader) -> None:
        self._image, self._reader, self._debug = image, reader, reader.debug

    def read(self, asked: Asked) -> InRegister:
        """Return the variables in the registers. Those of split units are not read."""
        found = [np.empty((0, 4), np.int64)]
        for first in range(0, len(asked.die), _FUNCTIONS):
            part = self._read(asked.part(first, min(first + _FUNCTIONS, len(asked.die))))
            part[part[:, 1] != ANYWHERE, 1] += asked.first[first]
            part[:, 0] += first
            found.append(part)
        return InRegister(*np.concatenate(found).T)

    def _read(self, asked: Asked) -> I64:
        rows = self._reader.read(asked.die, variables=True)
        unit = self._debug.unit_of(asked.die)[rows[:, col.L_OWNER].astype(np.intp)]
        is_own = (rows[:, col.L_TAG] != col.TAG_SUBPROGRAM) & (self._debug.units[unit, col.SHIFT] == 0)
        rows, unit = rows[is_own], unit[is_own]
        is_new = self._debug.units[unit, col.VERSION] >= 5
        lists = [
            self._in_lists(asked, rows[is_new], unit[is_new], ".debug_loclists"),
            self._in_lists(asked, rows[~is_new], unit[~is_new], ".debug_loc"),
        ]
        owners = distinct(np.concatenate([found[:, 0] for found in lists]).astype(np.uint64))
        found = np.concatenate([*lists, self._in_scopes(asked, rows, owners)])
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

    def _in_lists(self, asked: Asked, rows: U64, unit: I64, section: str) -> I64:
        """Return row of `asked`, row of its addresses, register, type and origin of the variables with lists."""
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
        first, owner = asked.first.astype(np.uint64), rows[:, col.L_OWNER].astype(np.intp)
        lists = np.stack([start, unit.astype(np.uint64), first[owner], first[owner + 1], asked.start[owner]], axis=1)
        places = np.stack([asked.address, asked.bits], axis=1)
        found = self._read_lists(lists, places, self._lists[section]).astype(np.intp)
        columns = (
            owner[found[:, 0]],
            found[:, 1],
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

    def _in_scopes(self, asked: Asked, rows: U64, owners: U64) -> I64:
        """Return the same of the variables of these owners that are in a register in all of their scope."""
        is_register = rows[:, col.L_FLAGS] & np.uint64(col.L_REGISTER) != 0
        rows = rows[is_register & is_in(rows[:, col.L_OWNER], owners)]
        register = rows[:, col.L_PLACE]
        bits = np.zeros(len(asked.die), np.uint64)
        np.bitwise_or.at(bits, np.repeat(np.arange(len(bits)), np.diff(asked.first)), asked.bits)
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
