"""Which member is in each slot of each vtable; ALL_MEMBERS where nothing says it, never by the folded address."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.model import ALL_MEMBERS
from icf.vtables.layout import Vtables
from linkpass.linked import Linked
from linkpass.objects import LinkObjects

U64 = NDArray[np.uint64]


class VtableSlots(NamedTuple):
    """Slots that hold the address of a body of the image, a row each, by (vtable, slot)."""

    vtable: U64  # its address point
    group: U64  # where the symbol begins that has it
    slot: NDArray[np.uint32]
    body: U64
    members: list[int]  # index of the member, or ALL_MEMBERS


def find_slots(linked: Linked, vtables: Vtables, objects: LinkObjects | None = None) -> VtableSlots:
    """The slots of all vtables; `objects` are those of the link, as far as they are at hand."""
    found = vtables.slots
    rows = np.flatnonzero(np.isin(found.target, linked.bodies.start))
    body = found.target[rows]
    members = np.where(np.isin(body, linked.vaddrs), ALL_MEMBERS, 0).tolist()
    return VtableSlots(found.vtable[rows], vtables.groups.start[found.group[rows]], found.slot[rows], body, members)
