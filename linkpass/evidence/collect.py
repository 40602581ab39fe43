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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from icf.model import Evidence
from icf.sets import difference, distinct
from icf.tables.dcall import parse_dcall
from icf.tables.place import file_with_tables
from linkpass.evidence.aligned import from_folded_callers
from linkpass.evidence.dwarf import from_call_sites, from_table
from linkpass.evidence.reach import Reach, find_reach, fragment_owners
from linkpass.evidence.records import Key, Records
from linkpass.evidence.relocation import from_relocations
from linkpass.linked import Linked, Place

if TYPE_CHECKING:
    from linkpass.evidence.annotated import Annotations
    from linkpass.objects.functions import LinkObjects


@dataclass(slots=True)
class Collected:
    """Everything that goes into the tables, by place."""

    reach: Reach
    records: Records
    open_calls: list[Key]  # calls of merged bodies without a record
    open_jumps: list[tuple[Key, int]]  # and jumps, with their target


def collect(linked: Linked, objects: LinkObjects | None = None, annotations: Annotations | None = None) -> Collected:
    """Collect every kind of evidence about every branch from which a merged body is reached."""
    reach = find_reach(linked)
    _outlined_functions(linked, reach)
    bodies = np.concatenate([reach.call_from, reach.call_target, reach.jump_from, reach.jump_target])
    linked.finder.prepare(difference(bodies, linked.vaddrs))
    records = Records()
    _stub_calls(linked, reach, records)
    if annotations is not None:
        records.merge(annotations.statements(linked, reach))
    file = file_with_tables(linked.image)
    table = file.contents(".debug_dcall")
    if len(table) and file.section(".debug_icf") is None:  # else it is the pass's own, which it makes anew
        records.merge(from_table(linked, reach, parse_dcall(table, file.path)))
    relocations = from_relocations(linked, reach)
    if relocations is not None:
        records.merge(relocations)
    if objects is not None:
        from linkpass.evidence.object import from_objects

        for _ in range(2):  # the first round may find functions that the image does not name, which call others
            records.merge(from_objects(linked, reach, objects, records))
    records.merge(from_call_sites(linked, reach, linked.sites))
    records.merge(from_folded_callers(linked, reach, records))
    return Collected(reach, records, _complete_calls(linked, reach, records), _complete_jumps(linked, reach, records))


def _outlined_functions(linked: Linked, reach: Reach) -> None:
    """Rule out outlined parts as callees: LLVM outlines cold code as functions (foo.cold.1) that only jumps enter."""
    for vaddr in distinct(reach.call_target).tolist():
        if vaddr in linked.folds:
            linked.folds[vaddr].fragment = False


def _stub_calls(linked: Linked, reach: Reach, records: Records) -> None:
    """Record calls through PLT stubs: the callee is the symbol in the stub's relocation."""
    rows = {int(end): row for row, end in enumerate(reach.call_end.tolist())} if reach.stub_symbol else {}
    by_target = linked.image.linker.may_fold_by_target
    for end, symbol in reach.stub_symbol.items():
        row = rows[end]
        target = int(reach.call_target[row])
        named = [Place(target, idx) for idx, member in enumerate(linked.members(target)) if member.is_named(symbol)]
        if len(named) == 1:
            source = int(reach.call_from[row])
            for caller in linked.places(source):
                if by_target and source in linked.folds and not linked.member(caller).kept:
                    continue
                records.calls[end, caller] = (named[0], Evidence.RELOCATION)


def _complete_calls(linked: Linked, reach: Reach, records: Records) -> list[Key]:
    """Record calls of bodies that are not merged, which need no evidence; return the calls that stay open."""
    still_open = []
    columns = (reach.call_end, reach.call_from, reach.call_target)
    for end, source, target in zip(*(column.tolist() for column in columns), strict=True):
        if source == 0:
            continue
        unknown = [key for caller in linked.places(source) if (key := (end, caller)) not in records.calls]
        if target in linked.folds:
            still_open += unknown
        else:
            records.calls.update(dict.fromkeys(unknown, (Place(target, 0), Evidence.DECODED)))
    return still_open


def _complete_jumps(linked: Linked, reach: Reach, records: Records) -> list[tuple[Key, int]]:
    """Record jumps in the same way; return those that stay open. A jump into a cold part stays in its function."""
    parts = {(owner, vaddr): idx for vaddr, owners in fragment_owners(linked).items() for owner, idx in owners}
    still_open = []
    columns = (reach.jump_end, reach.jump_from, reach.jump_target)
    for end, source, target in zip(*(column.tolist() for column in columns), strict=True):
        for caller in linked.places(source):
            key = (end, caller)
            if key in records.jumps or key in records.not_calls:
                continue
            if source == target and target not in linked.folds:
                continue  # a loop, or equivalent to one
            if target not in linked.folds:
                records.jumps[key] = (Place(target, 0), Evidence.DECODED)
            elif (source, target) in parts and source not in linked.folds:
                records.jumps[key] = (Place(target, parts[source, target]), Evidence.DECODED)
            elif linked.folds[target].fragment and source in linked.folds:
                own = set(linked.member(caller).dies)
                mine = [i for i, m in enumerate(linked.folds[target].members) if own & set(m.dies)]
                if len(mine) == 1:
                    records.jumps[key] = (Place(target, mine[0]), Evidence.DECODED)
                else:
                    still_open.append((key, target))
            else:
                still_open.append((key, target))
    return still_open
