"""Call-site records and jumps while they are collected from several kinds of evidence.

A record states: at this branch, in this caller, this function is called. It has the slot of the branch and the caller
(`linkpass.evidence.slots`). The kinds of evidence come best first, and the first that has a record determines it. Two
statements of one kind that differ for one slot cancel each other: neither is believed, and no weaker kind may fill the
gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from icf.columns import I32, I64, U8, Mask
from icf.model import Evidence
from icf.sets import distinct
from linkpass.evidence.callees import NONE, SEVERAL
from linkpass.evidence.slots import Slots

UNKNOWN, DISPUTED = -1, -2  # as callee
# why there is no statement
NO_CALLEE = "callee is none of the functions that the code calls"
SEVERAL_CALLEES = "callee is several of the functions that the code calls"


class Records:
    """The callees of the branches of a `Reach`, by slot, as far as they are known."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.callee: I32 = np.full(len(slots), UNKNOWN, np.int32)  # a member of the body that the branch leads to
        self.evidence: U8 = np.zeros(len(slots), np.uint8)
        self.is_loop: Mask = np.zeros(len(slots), np.bool_)  # a jump that is known to stay inside its function
        self.dropped: Counter[str] = Counter()  # statements that did not hold, by reason

    @property
    def is_known(self) -> Mask:
        """Which slots have a callee."""
        return np.asarray(self.callee >= 0)

    def record(self, slots: I64, callees: I64 | int, evidence: Evidence) -> None:
        """Set the callees of some slots."""
        self.callee[slots] = callees
        self.evidence[slots] = evidence

    def merge(self, statements: Statements) -> None:
        """Add the statements about slots of which neither a callee nor a dispute is known."""
        slot, callee = statements.columns()
        fresh = self.callee[slot] == UNKNOWN
        slot, callee = slot[fresh], callee[fresh]
        self.record(slot, callee, statements.evidence)
        disputed = distinct(slot[self.callee[slot] != callee])
        self.callee[disputed] = DISPUTED
        if len(disputed):
            statements.dropped["contradict each other"] += len(disputed)
        self.is_loop[statements.loops] = True
        for reason, count in statements.dropped.items():
            self.dropped[f"{statements.evidence.name.lower()}: {reason}"] += count

    def make_room(self, slots: Slots) -> None:
        """Go over to the slots of bodies with more members; the new ones are the last of each body."""
        if len(slots) == len(self.slots):
            return
        moved = Records(slots)
        at = slots.at(self.slots.branch, self.slots.member)
        moved.callee[at], moved.evidence[at], moved.is_loop[at] = self.callee, self.evidence, self.is_loop
        self.slots, self.callee, self.evidence, self.is_loop = slots, moved.callee, moved.evidence, moved.is_loop


class Statements:
    """The statements of one kind of evidence; several callees for one slot are a contradiction."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.loops: list[int] = []  # slots of jumps that stay inside their function
        self.dropped: Counter[str] = Counter()
        self._slots: list[I64] = [np.empty(0, np.int64)]
        self._callees: list[I64] = [np.empty(0, np.int64)]
        self._ones: list[tuple[int, int]] = []  # slot, callee

    def state(self, slots: ArrayLike, callees: ArrayLike) -> None:
        """State which member of its target each of these branches calls in its caller."""
        self._slots.append(np.asarray(slots, np.int64))
        self._callees.append(np.asarray(callees, np.int64))

    def state_found(self, slots: I64, callees: I64) -> None:
        """State what these branches call in their callers; count those of which that is NONE or SEVERAL."""
        is_known = callees >= 0
        self.state(slots[is_known], callees[is_known])
        for found, reason in ((NONE, NO_CALLEE), (SEVERAL, SEVERAL_CALLEES)):
            count = int((callees == found).sum())
            if count:
                self.dropped[reason] += count

    def state_one(self, slots: Iterable[int], callees: Sequence[int]) -> None:
        """State what a branch calls in some of its callers, if it is one member; else count why that is not known."""
        if len(callees) == 1:
            self._ones += [(slot, callees[0]) for slot in slots]
        else:
            self.dropped[SEVERAL_CALLEES if callees else NO_CALLEE] += 1

    def columns(self) -> tuple[I64, I64]:
        """Return the slot and the callee of each statement."""
        slots, callees = np.array(self._ones, np.int64).reshape(-1, 2).T
        return np.concatenate([*self._slots, slots]), np.concatenate([*self._callees, callees])
