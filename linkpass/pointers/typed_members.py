"""The types of objects in the members of bodies, and what the tables need of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.model import ALL_MEMBERS
from icf.sets import is_in, runs
from linkpass.linked import Linked


class TypedMembers(NamedTuple):
    """The type of an object in one member of a body, or in ALL_MEMBERS: a row for each object and member."""

    object: I64  # its number; ascending
    body: U64
    member: I64
    type: I64  # index of the type

    @classmethod
    def of(cls, rows: list[tuple[int, int, int, int]]) -> TypedMembers:
        """Make columns of rows."""
        object_, body, member, type_ = np.array(rows, np.uint64).reshape(-1, 4).T
        return cls(object_.astype(np.int64), body, member.astype(np.int64), type_.astype(np.int64))

    def rows(self, at: I64 | Mask) -> TypedMembers:
        """Return some of them."""
        return TypedMembers(self.object[at], self.body[at], self.member[at], self.type[at])

    def followed_by(self, others: TypedMembers) -> TypedMembers:
        """Return these rows and the others."""
        return TypedMembers(
            np.concatenate([self.object, others.object]),
            np.concatenate([self.body, others.body]),
            np.concatenate([self.member, others.member]),
            np.concatenate([self.type, others.type]),
        )


def in_short(linked: Linked, typed: TypedMembers) -> TypedMembers:
    """Return one row for all members of an object, if they agree; none of a body that need not be listed otherwise."""
    if not len(typed.object):
        return typed
    _, first, end = runs(typed.object)
    body = typed.body[first]
    is_merged = is_in(body, linked.vaddrs)
    uncertain = [vaddr for vaddr, fold in linked.folds.items() if not fold.complete]
    is_complete = ~is_in(body, np.array(sorted(linked.undescribed.union(uncertain)), np.uint64))
    agree = np.minimum.reduceat(typed.type, first) == np.maximum.reduceat(typed.type, first)
    is_short = is_complete & agree & (end - first == linked.member_counts(body))
    keep = np.repeat(is_merged & ~is_short, end - first)
    keep[first[is_short]] = True
    typed.member[first[is_short]] = ALL_MEMBERS
    return typed.rows(keep)
