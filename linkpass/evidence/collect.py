"""Collect all evidence about the branches that matter, merge it, and complete it.

    evidence, best first            what it covers
    table                           annotated objects, an earlier .debug_dcall
    relocation                      kept code, all of it
    object                          all code, where the objects of the link are at hand
    dwarf                           kept and folded code, as far as compilers wrote call sites
    aligned                         folded code whose call sites are tombstoned
    the code itself (decoded)       calls and jumps whose target is not merged: there is no choice

A call that reaches a merged body stays open if no evidence names the callee for its caller. It gets no record, and the
classes it calls are not complete.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.model import Evidence
from icf.sets import difference, distinct, is_in
from icf.tables.dcall import parse_dcall
from icf.tables.place import file_with_tables
from linkpass.evidence.aligned import from_folded_callers
from linkpass.evidence.callbacks import Callback, Callbacks
from linkpass.evidence.dwarf import from_call_sites, from_table
from linkpass.evidence.reach import Reach, find_reach
from linkpass.evidence.records import UNKNOWN, Records
from linkpass.evidence.relocation import from_relocations
from linkpass.evidence.slots import Slots
from linkpass.linked import Linked, Place

if TYPE_CHECKING:
    from linkpass.evidence.annotated import Annotations
    from linkpass.objects.functions import LinkObjects


class Collected(NamedTuple):
    """Everything that goes into the tables."""

    reach: Reach
    records: Records
    open_calls: I64  # slots of calls of merged bodies without a record
    open_jumps: I64  # and of jumps
    callbacks: tuple[Callback, ...] = ()  # what callers pass to imports that call it back


def collect(linked: Linked, objects: LinkObjects | None = None, annotations: Annotations | None = None) -> Collected:
    """Collect every kind of evidence about every branch from which a merged body is reached."""
    reach = find_reach(linked)
    _outlined_functions(linked, reach)
    linked.finder.prepare(difference(np.concatenate([reach.source, reach.target]), linked.vaddrs))
    slots = Slots.of(linked.member_counts(reach.source))
    records = Records(slots)
    callbacks = Callbacks(linked, reach)
    _stub_calls(linked, reach, records)
    if annotations is not None:
        records.merge(annotations.statements(linked, reach, slots))
    file = file_with_tables(linked.image)
    table = file.contents(".debug_dcall")
    if len(table) and file.section(".debug_icf") is None:  # else it is the pass's own, which it makes anew
        records.merge(from_table(linked, reach, slots, parse_dcall(table, file.path)))
    relocations = from_relocations(linked, reach, slots)
    if relocations is not None:
        records.merge(relocations)
        given = from_relocations(linked, callbacks.reach, callbacks.records.slots)
        if given is not None:
            callbacks.records.merge(given)
    if objects is not None:
        from linkpass.evidence.object import from_objects

        for _ in range(2):  # the first round may find functions that the image does not name, which call others
            records.merge(from_objects(linked, reach, objects, records))
            if len(callbacks):
                callbacks.records.merge(from_objects(linked, callbacks.reach, objects, callbacks.records))
            records.make_room(Slots.of(linked.member_counts(reach.source)))
            callbacks.make_room()
    records.merge(from_call_sites(linked, reach, records.slots, linked.sites))
    records.merge(from_folded_callers(linked, reach, records))
    open_calls, open_jumps = _complete_calls(linked, reach, records), _complete_jumps(linked, reach, records)
    return Collected(reach, records, open_calls, open_jumps, tuple(callbacks.found()))


def _outlined_functions(linked: Linked, reach: Reach) -> None:
    """Rule out outlined parts as callees: LLVM outlines cold code as functions (foo.cold.1) that only jumps enter."""
    for vaddr in distinct(reach.target[reach.calls]).tolist():
        if vaddr in linked.folds:
            linked.folds[vaddr].fragment = False


def _stub_calls(linked: Linked, reach: Reach, records: Records) -> None:
    """Record calls through PLT stubs: the callee is the symbol in the stub's relocation."""
    by_target = linked.image.linker.may_fold_by_target
    for branch, symbol in reach.stub_symbol.items():
        source, target = int(reach.source[branch]), int(reach.target[branch])
        named = linked.members_by_name(target).get(symbol, [])
        if len(named) == 1:
            callers = records.slots.all_of(np.array([branch]))
            if by_target and source in linked.folds:
                callers = callers[[bool(member.kept) for member in linked.members(source)]]
            records.record(callers, named[0], Evidence.RELOCATION)


def _complete_calls(linked: Linked, reach: Reach, records: Records) -> I64:
    """Record calls of bodies of one function, which need no evidence; return the slots that stay open."""
    branch = records.slots.branch
    unknown = np.flatnonzero(~records.is_known & ((reach.source != 0) & ~reach.is_jump)[branch])
    is_shared = _may_be_shared(linked, reach.target)[branch[unknown]]
    records.record(unknown[~is_shared], 0, Evidence.DECODED)
    return unknown[is_shared]


def _complete_jumps(linked: Linked, reach: Reach, records: Records) -> I64:
    """Record jumps in the same way; return those that stay open. A jump into a cold part stays in its function."""
    branch = records.slots.branch
    unknown: I64 = np.flatnonzero(~records.is_known & ~records.is_loop & reach.is_jump[branch])
    is_loop = ((reach.source == reach.target) & ~is_in(reach.target, linked.vaddrs))[branch[unknown]]  # or equivalent
    unknown = unknown[~is_loop]
    is_shared = _may_be_shared(linked, reach.target)[branch[unknown]]
    records.record(unknown[~is_shared], 0, Evidence.DECODED)
    unknown = unknown[is_shared]
    parts = _PartsOfFunctions(linked)
    found = np.array([parts.entered_by(reach, records.slots, slot) for slot in unknown.tolist()], np.int64)
    records.record(unknown[found >= 0], found[found >= 0], Evidence.DECODED)
    return unknown[found < 0]


def _may_be_shared(linked: Linked, bodies: U64) -> Mask:
    """Return which bodies are merged, or may have further members that left no trace."""
    return is_in(bodies, linked.vaddrs) | is_in(bodies, np.array(sorted(linked.undescribed), np.uint64))


class _PartsOfFunctions:
    """The cold parts of an image that functions share, or may share."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked
        self._parts_by_die = cache(self._by_die)

    def entered_by(self, reach: Reach, slots: Slots, slot: int) -> int:
        """Return the member of a body that is a part of the function that jumps there, -1 if none is known."""
        linked, branch = self._linked, slots.branch[slot]
        source, target = int(reach.source[branch]), int(reach.target[branch])
        if not source or (target in linked.folds and not linked.folds[target].fragment):
            return UNKNOWN
        parts = self._parts_by_die(target)
        own = linked.member(Place(source, int(slots.member[slot]))).dies
        mine = set[int]().union(*(parts[die] for die in own if die in parts))
        return mine.pop() if len(mine) == 1 else UNKNOWN

    def _by_die(self, vaddr: int) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for idx, member in enumerate(self._linked.members(vaddr)):
            for die in member.dies:
                found.setdefault(die, []).append(idx)
        return found
