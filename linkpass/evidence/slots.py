"""Slots: one for each branch and each member of the body that the branch is in.

branch            members of its body     slots
call at 0x2005    apples, pears           0, 1
call at 0x1005    main                    2
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I32, I64
from icf.sets import rows_of_runs


class Slots(NamedTuple):
    """The slots of the branches of a `Reach`."""

    first: I64  # of each branch
    member_count: I64  # of each branch: the members of its body
    branch: I32  # of each slot
    member: I32  # of each slot: its index in the body

    @classmethod
    def of(cls, counts: I64) -> Slots:
        """Return slots for branches whose bodies have so many members."""
        first = np.cumsum(counts) - counts
        branch = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        member = np.arange(len(branch), dtype=np.int32) - first[branch].astype(np.int32)
        return cls(first, counts, branch, member)

    def __len__(self) -> int:
        return len(self.branch)

    def at(self, branches: I64 | I32, members: I64 | I32) -> I64:
        """Return the slot of each branch in one member of its body."""
        return np.asarray(self.first[branches] + members)

    def all_of(self, branches: I64) -> I64:
        """Return all slots of some branches, in their order."""
        return rows_of_runs(self.first[branches], self.member_count[branches])[1]
