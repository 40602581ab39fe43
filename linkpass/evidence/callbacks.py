"""Which functions callers pass to imports that call them back, as `qsort` (`icf.code.callbacks`).

The instruction that forms the address has an operand like that of a call, and a relocation that says which function is
meant. So each is collected as a branch would be, with the same kinds of evidence:

    image    body of f, g     lea T, %rcx ... call qsort@plt    return address R
    object   section of g     lea ?           relocation at the same place in g: symbol h
    record   at R, in g: h    if h is one of the functions at T

Where the body T is that of one function the code itself shows it. Bodies that functions without a trace in the image
may share (`Linked.undescribed`) are left out: pointers are what leads to these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.code.callbacks import find_given
from icf.columns import U8
from icf.model import Evidence
from icf.sets import difference, is_in
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Records
from linkpass.evidence.slots import Slots
from linkpass.linked import Linked
from linkpass.pointer_jumps import NO_POINTER_JUMPS


class Callback(NamedTuple):
    """In a member of the body `source`, or in whichever function has it, the call before `call_end` gets `callee`."""

    call_end: int
    source: int
    caller: int  # a member, or ANY_CALLER
    target: int
    callee: int  # a member of the body `target`
    evidence: Evidence


ANY_CALLER = -1


class Callbacks:
    """The callbacks of an image while evidence about them is collected."""

    def __init__(self, linked: Linked, reach: Reach) -> None:
        self._linked = linked
        given = find_given(linked.image, linked.bodies.start, linked.bodies.end) if linked.folds else []
        wanted = reach.wanted - linked.undescribed
        given = [each for each in given if each.target in wanted]
        self._call_end = [each.call_end for each in given]
        end, target = (np.array([each[column] for each in given], np.uint64) for column in (1, 2))
        source = linked.bodies.starts_at(end - np.uint64(1))
        none: U8 = np.zeros(len(given), np.uint8)
        self.reach = Reach(
            frozenset(target.tolist()), frozenset(), NO_POINTER_JUMPS, end, none, source, target,
            none != 0, np.zeros(len(given), np.uint64), {}, frozenset(),
        )  # fmt: skip
        linked.finder.prepare(difference(np.concatenate([source, target]), linked.vaddrs))
        self.records = Records(Slots.of(linked.member_counts(source)))

    def __len__(self) -> int:
        return len(self._call_end)

    def make_room(self) -> None:
        """Go over to the members that bodies have now."""
        self.records.make_room(Slots.of(self._linked.member_counts(self.reach.source)))

    def found(self) -> list[Callback]:
        """Return the callbacks that are known; by call and caller."""
        linked, reach, records = self._linked, self.reach, self.records
        branch = records.slots.branch
        unknown = ~records.is_known & ~is_in(reach.target, linked.vaddrs)[branch]
        records.record(np.flatnonzero(unknown), 0, Evidence.DECODED)
        rows = []
        for slot in np.flatnonzero(records.is_known & (reach.source[branch] != 0)).tolist():
            at = int(branch[slot])
            source, member = int(reach.source[at]), int(records.slots.member[slot])
            is_only = source not in linked.folds and source not in linked.undescribed
            caller, evidence = ANY_CALLER if is_only else member, Evidence(int(records.evidence[slot]))
            callee = int(records.callee[slot])
            rows.append(Callback(self._call_end[at], source, caller, int(reach.target[at]), callee, evidence))
        return sorted(rows)
