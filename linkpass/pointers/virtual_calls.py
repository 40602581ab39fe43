"""The vtable slot that each virtual call takes, and the functions in the slots, if a merged function can be reached.

    slots of vtables ── those with a body of `Reach.wanted`, ──> slots that matter
                        or with a function of another module           │
    calls through pointers ── with a slot, proven by the code ─────────┴──> .debug_vcall
                              or by an earlier .debug_vcall, where the code does not show it

Another module's functions may be merged there; those of the C++ runtime are not.

A statement that the code contradicts is dropped and counted; so is a slot that no vtable of the image has.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from icf.columns import U64
from icf.model import ANY_POINTER, Evidence
from icf.sets import distinct, is_in
from icf.tables.place import file_with_tables
from icf.tables.vcall import VirtualCalls, parse_vcall
from icf.vtables.layout import Vtables
from linkpass.evidence.reach import Reach
from linkpass.linked import Linked
from linkpass.pointers.vtable_slots import VtableSlots

_OF_RUNTIME = re.compile(
    r"__cxa_|_Z(?:T(?:c?[hv]n?\d+_(?:n?\d+_)?)+)?N[rVK]*[RO]?(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1)"
)


@dataclass(slots=True)
class Virtual:
    """The slots and virtual calls that the tables get."""

    slots: VtableSlots
    calls: list[tuple[int, int, Evidence]] = field(default_factory=list)  # return address, slot; ascending
    indirect_calls: int = 0  # calls through pointers in all functions
    dropped: Counter[str] = field(default_factory=Counter)


def find_virtual(linked: Linked, vtables: Vtables, reach: Reach, slots: VtableSlots) -> Virtual:
    """Choose the slots and calls that matter."""
    matters = slots.only(is_in(slots.body, np.array(sorted(reach.wanted), np.uint64)))
    found = Virtual(matters, indirect_calls=len(reach.pointers.call_end))
    elsewhere = _slots_of_other_modules(linked, vtables)
    wanted, known = (elsewhere.union(distinct(each.slot).tolist()) for each in (matters, slots))
    for site, slot, evidence in _statements(linked, reach, found.dropped):
        if slot in wanted:
            found.calls.append((site, slot, evidence))
        elif slot not in known:
            found.dropped[f"{evidence.name.lower()}: no vtable has the slot"] += 1
    return found


def _slots_of_other_modules(linked: Linked, vtables: Vtables) -> set[int]:
    """Return the slots in which some vtable has a function of another module that may be merged there."""
    symbols, bound = linked.image.dynamic_symbols, vtables.bound
    imported = distinct(bound.symbol[~symbols.is_defined[bound.symbol]]).tolist()
    merged = [row for row in imported if not _OF_RUNTIME.match(symbols.name(row))]
    return set(bound.slot[is_in(bound.symbol, np.array(merged, np.uint32))].tolist())


def _statements(linked: Linked, reach: Reach, dropped: Counter[str]) -> list[tuple[int, int, Evidence]]:
    """Return calls with a slot: of a table in the image, and of the code."""
    ends, slots = reach.pointers.call_end.tolist(), reach.pointers.call_slot.tolist()
    decoded = dict(zip(ends, slots, strict=True))
    slots_of_site: dict[int, set[int]] = {}
    for site, slot in zip(*(column.tolist() for column in _foreign(linked)), strict=True):
        slots_of_site.setdefault(site, set()).add(slot)
    rows = {site: (slot, Evidence.DECODED) for site, slot in decoded.items() if slot != ANY_POINTER}
    for site, found_slots in slots_of_site.items():
        if site not in decoded:
            dropped["table: no call through a pointer ends there"] += 1
        elif len(found_slots) > 1:
            dropped["table: contradict each other"] += 1
        elif decoded[site] not in (ANY_POINTER, *found_slots):
            dropped["table: the code takes another slot"] += 1
            rows.pop(site)
        else:
            rows[site] = (next(iter(found_slots)), Evidence.TABLE)
    return [(site, *rows[site]) for site in sorted(rows)]


def _foreign(linked: Linked) -> tuple[U64, U64]:
    """Return the calls of a .debug_vcall of another producer; the pass makes its own anew."""
    file = file_with_tables(linked.image)
    calls = VirtualCalls.of(())
    if file.section(".debug_icf") is None:
        calls = parse_vcall(file.contents(".debug_vcall"), file.path)
    return calls.call_site, calls.vtable_slot
