"""The slots that debug information has for methods (DW_AT_vtable_elem_location), and what they say of others.

A method is in the same slot of each vtable. So one that has another slot is not in this one, nor is one without debug
information, an alias that gcc made, if another method of its class has the slot.

Each unit has a local class of a name for itself. What is recorded of one counts for another only if it is certain that
both are of one unit. Nor does it count for a method of which it is not certain that the DIE is its own: two units have
source files of one name, and one of both methods has no slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U32, U64, Mask
from icf.dwarf.virtual import VirtualDies
from icf.sets import distinct, is_in
from linkpass.pointers.class_methods import ClassMethods
from linkpass.pointers.method_units import MethodUnits

_SLOT_LIMIT = 1 << 32


class RecordedSlots(NamedTuple):
    """The slots that debug information has for members."""

    has_any: Mask  # by member
    pairs: U64  # member and slot, ascending

    @classmethod
    def read(cls, virtual_dies: VirtualDies, methods: ClassMethods, rows: I64, units: MethodUnits) -> RecordedSlots:
        """Return the slots that debug information has for some methods, without thunks and destructors.

        There are two slots of a destructor, and clang records 0 for both.
        """
        plain = rows[methods.is_plain(rows)]
        declared, roots = methods.roots_of(methods.member[plain])
        after = virtual_dies.slots_after(roots)
        has_slots = np.zeros(len(methods.members), np.bool_)
        has_slots[declared[after != 0]] = True
        has_slots[units.are_mixed_up(has_slots)] = False
        is_slot = (after != 0) & (after <= _SLOT_LIMIT) & has_slots[declared]
        return cls(has_slots, distinct(_pairs(declared[is_slot], after[is_slot] - np.uint64(1))))

    def may_be_in(self, slots: U32, methods: ClassMethods, rows: I64, of_class: I64, units: MethodUnits) -> Mask:
        """Return whether each method may be in that slot of its class's own vtable.

        `of_class`: a number, equal for methods of one class and asked slot.
        """
        members, is_plain = methods.member[rows], methods.is_plain(rows)
        has_slot = is_plain & is_in(_pairs(members, slots), self.pairs)
        unit, is_certain = units.unit[members], units.is_certain[members]
        key = of_class * units.count + unit
        is_taken = is_certain & is_in(key, distinct(key[has_slot & is_certain]))
        return np.asarray(~is_plain | has_slot | (~self.has_any[members] & ~is_taken))


def _pairs(rows: I64, values: U64 | U32) -> U64:
    """Return a number for each pair of a row and a value of 32 bits."""
    return np.asarray(rows.astype(np.uint64) << np.uint64(32) | values.astype(np.uint64))
