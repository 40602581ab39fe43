"""Checks the tables' vtables, and calls and jumps through pointers, against code and data.

It checks: a call through a pointer ends at the return address, and the code does not show that it takes another
slot; a jump through a pointer, or to an import, stands at each recorded address; the word of a slot holds the address
of the function's body.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from icf.code.calls import CallKind, call_ending_at
from icf.code.indirect import NO_SLOT, Indirect, find_indirect
from icf.code.jumps import is_pointer_jump, is_retpoline, jump_at
from icf.dwarf.cfi.landing_pads import LandingPads
from icf.elf.image import Image
from icf.folds.functions import Bodies, find_bodies
from icf.tables.icftable import IcfTable
from icf.tables.vcall import VirtualCalls
from icf.vtables.words import LoadedData

_WORD_BYTES = 8


def check_virtual(image: Image, table: IcfTable, calls: VirtualCalls) -> Iterator[str]:
    """Yield the statements that code and data contradict, a line each; slots of calls apart."""
    for site in calls.call_site.tolist():
        if call_ending_at(image, site).kind is not CallKind.INDIRECT:
            yield f".debug_vcall: call site {site:#x}: no call through a pointer ends there"
    columns = table.columns
    jumps = columns.pointer_jump
    around = np.searchsorted(table.class_vaddr, jumps, side="right").astype(np.int64) - 1
    listed = (
        (around >= 0) & (jumps - table.class_vaddr[around] < table.class_size[around]) if len(jumps) else around > 0
    )
    for jump, inside in zip(jumps.tolist(), listed.tolist(), strict=True):
        if not inside:
            yield f".debug_icf: jump at {jump:#x} is in no listed body"
        elif not is_pointer_jump(image, jump) and not _is_thunk(image, jump_at(image, jump)):
            yield f".debug_icf: jump at {jump:#x}: no jump through a pointer stands there"
    yield from _check_vtables(image, table)


def _check_vtables(image: Image, table: IcfTable) -> Iterator[str]:
    columns = table.columns
    vtable = np.repeat(columns.vtable_vaddr, np.diff(columns.slot_start).astype(np.int64))
    place = vtable + columns.slot * np.uint64(_WORD_BYTES)
    class_of_member = np.repeat(np.arange(len(table.class_vaddr)), np.diff(table.member_start).astype(np.int64))
    index = (columns.slot_function >> np.uint64(1)).astype(np.int64)
    is_class = columns.slot_function & np.uint64(1) == 1
    class_idx = np.where(is_class, index, class_of_member[np.where(is_class, 0, index)] if len(index) else index)
    expected = table.class_vaddr[class_idx]
    places, inverse = np.unique(place, return_inverse=True)
    found = LoadedData(image).words(places).value[inverse.reshape(-1)]
    for row in np.flatnonzero((found != expected) | (place % np.uint64(_WORD_BYTES) != 0)).tolist():
        yield (
            f".debug_icf: vtable {int(vtable[row]):#x}, slot {int(columns.slot[row])}: "
            f"holds {int(found[row]):#x}, not {int(expected[row]):#x}"
        )


def decode_pointers(image: Image, table: IcfTable) -> tuple[Bodies, Indirect]:
    """Return the bodies, those of the table and of symbols, and the calls and jumps through pointers in their code."""
    bodies = find_bodies(image, None)
    start, first = np.unique(np.concatenate([bodies.start, table.class_vaddr]), return_index=True)
    end = np.concatenate([bodies.end, table.class_vaddr + table.class_size])[first]
    bodies = bodies._replace(start=start, end=end)
    return bodies, find_indirect(image, start, end, np.empty(0, np.uint64), LandingPads(image))


def check_slots(found: Indirect, calls: VirtualCalls) -> Iterator[str]:
    """Yield the calls for which the code shows another slot."""
    decoded = dict(zip(found.call_end.tolist(), found.call_slot.tolist(), strict=True))
    for site, slot in zip(calls.call_site.tolist(), calls.vtable_slot.tolist(), strict=True):
        if decoded.get(site, NO_SLOT) not in (NO_SLOT, slot):
            yield f".debug_vcall: call site {site:#x}: the code takes slot {decoded[site]}, not {slot}"


def _is_thunk(image: Image, target: int | None) -> bool:
    """Return whether the target of a jump only jumps through a pointer."""
    return target is not None and (target in image.plt_stubs or is_retpoline(image, target))
