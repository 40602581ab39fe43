"""The members that the tables name, as rows: those of the listed classes, and callers that are in no listed class.

class      members                        rows
0x1720     grow<A>, grow<B>, grow<C>      0, 1, 2
0x1810     open                           3
not listed: callers of their own          4, ...
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U8, U64
from icf.folds.members import FoldMember
from icf.model import ALL_MEMBERS, MemberFlag
from linkpass.linked import Linked, Place
from linkpass.pointers.address_taken import Marks


class Rows(NamedTuple):
    """Columns of members; classes ascend, and their members are as in `Linked`."""

    class_vaddr: U64
    member_start: U64  # first row of each class; one more than there are classes
    members: list[FoldMember]
    first: dict[int, int]  # first row of each body, listed or not
    die: U64  # that stands for the member in .debug_info of the image, 0 for none

    @classmethod
    def of(cls, linked: Linked, listed: Iterable[int], callers: Iterable[int]) -> Rows:
        """Return the members of the bodies `listed`, then those of the bodies of callers that are not among them."""
        classes = sorted(listed)
        known = set(classes)
        others = sorted({vaddr for vaddr in callers if vaddr not in known})
        members: list[FoldMember] = []
        first: dict[int, int] = {}
        for vaddr in (*classes, *others):
            first[vaddr] = len(members)
            members += linked.members(vaddr)
        starts = [first[vaddr] for vaddr in (*classes, *others[:1])]
        if not others:
            starts.append(len(members))
        die = np.array([min(member.dies, default=0) for member in members], np.uint64)
        die[die >= len(linked.debug.info)] = 0  # of a split unit
        return cls(np.array(classes, np.uint64), np.array(starts, np.uint64), members, first, die)

    def row(self, place: Place) -> int:
        """Return the row of a member."""
        return self.first[place.vaddr] + place.member

    def of_places(self, places: U64) -> I64:
        """Return the rows of members: u64[n, 2] of body and index of the member."""
        bodies = np.fromiter(self.first, np.uint64, len(self.first))
        starts = np.fromiter(self.first.values(), np.int64, len(self.first))
        order = np.argsort(bodies)
        at = order[np.searchsorted(bodies, places[:, 0], sorter=order)]
        return np.asarray(starts[at] + places[:, 1].astype(np.int64))

    def function(self, place: Place) -> int:
        """Return a member of a listed class, or ALL_MEMBERS of one, as `IcfColumns.tail_callee` has it."""
        if place.member == ALL_MEMBERS:
            return 2 * int(np.searchsorted(self.class_vaddr, np.uint64(place.vaddr))) + 1
        return 2 * self.row(place)

    @property
    def listed_count(self) -> int:
        """Return the number of members of listed classes."""
        return int(self.member_start[-1])

    def without_die(self) -> list[tuple[Place, int]]:
        """Return the members without a DIE and their rows, by place."""
        missing = np.flatnonzero(self.die == 0)
        starts = np.array(list(self.first.values()), np.int64)
        vaddrs = np.array(list(self.first), np.uint64)
        body: I64 = np.searchsorted(starts, missing, side="right") - 1
        columns = vaddrs[body].tolist(), (missing - starts[body]).tolist()
        return sorted(zip(map(Place, *columns), missing.tolist(), strict=True))

    def flags(self, marks: Marks, declared: Iterable[int]) -> U8:
        """Return the MemberFlag of each member of a listed class; those in rows `declared` have a new DIE."""
        listed = self.members[: self.listed_count]
        flags = np.zeros(len(self.members), np.uint8)
        for flag, rows in (
            (MemberFlag.KEPT, [row for row, member in enumerate(listed) if member.kept]),
            (MemberFlag.LOCAL, [row for row, member in enumerate(listed) if member.local]),
            (MemberFlag.NAMELESS, [row for row, member in enumerate(listed) if member.nameless]),
            (MemberFlag.SYNTHETIC, list(declared)),
            (MemberFlag.ADDRESS_TAKEN, self._marked(marks.taken)),
            (MemberFlag.VIRTUAL, self._marked(marks.virtual)),
        ):
            flags[rows] |= np.uint8(flag)
        return flags[: self.listed_count]

    def _marked(self, marked: dict[int, set[int]]) -> list[int]:
        classes = set(self.class_vaddr.tolist())
        starts = ((self.first[vaddr], members) for vaddr, members in marked.items() if vaddr in classes)
        return [start + member for start, members in starts for member in members]
