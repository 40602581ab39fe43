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

from icf.columns import I32, I64, U8, U64
from icf.folds.body_members import KEPT
from icf.folds.member_columns import MemberColumns
from icf.model import ALL_MEMBERS, MemberFlag
from linkpass.linked import Linked, Place
from linkpass.pointers.address_taken import Marks


class Rows(NamedTuple):
    """Columns of members; classes ascend, and their members are as in `Linked`."""

    class_count: int  # of listed classes, which come first
    vaddr: U64  # bodies: the classes, then the others, both ascending
    start: I64  # first row of each body; one more than there are bodies
    members: MemberColumns
    die: U64  # that stands for the member in .debug_info of the image, 0 for none

    @classmethod
    def of(cls, linked: Linked, listed: Iterable[int], callers: Iterable[int]) -> Rows:
        """Return the members of the bodies `listed`, then those of the bodies of callers that are not among them."""
        classes = sorted(listed)
        vaddrs = [*classes, *sorted(set(callers).difference(classes))]
        members = linked.columns_of(np.array(vaddrs, np.uint64))
        die = members.die
        die[die >= len(linked.debug.info)] = 0  # of a split unit
        return cls(len(classes), np.array(vaddrs, np.uint64), members.start, members, die)

    @property
    def class_vaddr(self) -> U64:
        """The listed classes."""
        return self.vaddr[: self.class_count]

    @property
    def member_start(self) -> U64:
        """The first row of each listed class; one more than there are classes."""
        return self.start[: self.class_count + 1].astype(np.uint64)

    @property
    def listed_count(self) -> int:
        """The number of members of listed classes."""
        return int(self.start[self.class_count])

    def of_members(self, vaddrs: U64, members: I64 | I32) -> I64:
        """Return the rows of members: the body of each, and its index there."""
        order = np.argsort(self.vaddr)
        return np.asarray(self.start[order[np.searchsorted(self.vaddr, vaddrs, sorter=order)]] + members)

    def functions(self, vaddrs: U64, members: I64) -> U64:
        """Return members of listed classes, or ALL_MEMBERS of one, as `IcfColumns.tail_callee` has them."""
        is_one = members != ALL_MEMBERS
        of_one = 2 * self.of_members(vaddrs, np.where(is_one, members, 0))
        return np.where(is_one, of_one, 2 * np.searchsorted(self.class_vaddr, vaddrs) + 1).astype(np.uint64)

    def without_die(self) -> tuple[list[Place], I64]:
        """Return the members without a DIE, by place, and their rows."""
        missing = np.flatnonzero(self.die == 0)
        body: I64 = np.searchsorted(self.start, missing, side="right") - 1
        vaddr, member = self.vaddr[body], missing - self.start[body]
        order = np.lexsort((member, vaddr))
        return list(map(Place, vaddr[order].tolist(), member[order].tolist())), missing[order]

    def flags(self, marks: Marks, declared: I64) -> U8:
        """Return the MemberFlag of each member of a listed class; those in rows `declared` have a new DIE."""
        flags = np.zeros(len(self.members), np.uint8)
        for flag, rows in (
            (MemberFlag.KEPT, self.members.kept == KEPT),
            (MemberFlag.LOCAL, self.members.is_local),
            (MemberFlag.NAMELESS, self.members.is_nameless),
            (MemberFlag.SYNTHETIC, declared),
            (MemberFlag.ADDRESS_TAKEN, self._marked(marks.taken)),
            (MemberFlag.VIRTUAL, self._marked(marks.virtual)),
        ):
            flags[rows] |= np.uint8(flag)
        return flags[: self.listed_count]

    def _marked(self, marked: dict[int, set[int]]) -> list[int]:
        start_of = dict(zip(self.class_vaddr.tolist(), self.start.tolist(), strict=False))
        return [start_of[vaddr] + member for vaddr in marked.keys() & start_of.keys() for member in marked[vaddr]]
