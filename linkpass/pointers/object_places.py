"""Where virtual calls and jumps are, and the registers that point to their objects then, or into them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.elf.types import Machine
from icf.sets import distinct, in_order_met, is_in
from linkpass.linked import Linked
from linkpass.pointer_jumps import PointerJumps

_DWARF_REGISTER: dict[Machine, tuple[int, ...]] = {  # System V ABI for x86-64, figure 3.36; AArch64 has no other
    Machine.X86_64: (0, 2, 1, 3, 7, 6, 4, 5, *range(8, 16)),
    Machine.AARCH64: tuple(range(32)),
}


class Places(NamedTuple):
    """Calls and jumps, and their registers."""

    key: I64  # row of the calls; of a jump, its row after all calls
    address: U64
    body: U64
    start: I64  # first row of the columns that follow; one more than there are places
    register: I64  # as DWARF numbers it
    offset: I64  # from there to the object

    def offsets(self, place: int) -> dict[int, int]:
        """Return the offset from each register of a place."""
        rows = slice(self.start[place], self.start[place + 1])
        return dict(zip(self.register[rows].tolist(), self.offset[rows].tolist(), strict=True))


def find_places(linked: Linked, pointers: PointerJumps, sites: U64, is_wanted: Mask) -> Places:
    """Return where the wanted calls, by return address, and jumps are, if registers point to their objects.

    `is_wanted` has a row for each call and then one for each jump. Parts of functions are left out.
    """
    is_jump = pointers.holder == pointers.holder_end
    key = np.full(len(is_jump), -1)
    for ends, before, are_meant in ((sites, 0, ~is_jump), (pointers.jump, len(sites), is_jump)):
        rows = np.flatnonzero(is_wanted[before : before + len(ends)])
        if len(rows):
            at = np.searchsorted(ends[rows], pointers.holder_end, side="right") - 1
            is_there = are_meant & (ends[rows][at] == pointers.holder_end)
            key[is_there] = before + rows[at[is_there]]
    bodies = linked.bodies.starts_at(pointers.holder)
    functions = linked.functions
    in_parts = functions.low[is_in(functions.die, distinct(functions.die[functions.part > 0]))]
    parts = [vaddr for vaddr, fold in linked.folds.items() if fold.fragment]
    is_kept = (key >= 0) & (bodies != 0) & ~is_in(bodies, in_parts) & ~is_in(bodies, np.array(parts, np.uint64))

    kept = np.flatnonzero(is_kept)
    first, place = in_order_met(key[kept, np.newaxis])
    order = np.argsort(place, kind="stable")
    start = np.searchsorted(place[order], np.arange(len(first) + 1))
    kept, met = kept[order], kept[first]
    registers = np.array(_DWARF_REGISTER[linked.image.machine])[pointers.holder_register[kept]]
    return Places(key[met], pointers.holder[met], bodies[met], start, registers, pointers.holder_offset[kept])
