"""Call-site records and jumps while they are collected from several kinds of evidence.

A record states: at this return address, in this caller, this function is called. The kinds of evidence come
best first, and the first that has a record determines it. Two statements of one kind that differ for one
call site and caller cancel each other: neither is believed, and no weaker kind may fill the gap.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from icf.model import Evidence
from linkpass.linked import Place

Key = tuple[int, Place]  # return address, or address after the jump; and the caller


@dataclass(slots=True)
class Records:
    """The callees of the branches of a `Reach`, by key, as far as they are known."""

    calls: dict[Key, tuple[Place, Evidence]] = field(default_factory=dict)
    jumps: dict[Key, tuple[Place, Evidence]] = field(default_factory=dict)
    not_calls: set[Key] = field(default_factory=set)  # jumps that are known to stay inside their function
    dropped: Counter[str] = field(default_factory=Counter)  # statements that did not hold, by reason
    _disputed_calls: set[Key] = field(default_factory=set)
    _disputed_jumps: set[Key] = field(default_factory=set)

    def merge(self, statements: Statements) -> None:
        """Add the statements that are neither known yet nor disputed."""
        for mine, disputed, theirs in (
            (self.calls, self._disputed_calls, statements.calls),
            (self.jumps, self._disputed_jumps, statements.jumps),
        ):
            known: dict[frozenset[Place], tuple[Place, Evidence]] = {}  # thousands of records name the same callee
            for key, callees in theirs.items():
                if key in mine or key in disputed:
                    continue
                if len(callees) == 1:
                    if callees not in known:
                        known[callees] = (next(iter(callees)), statements.evidence)
                    mine[key] = known[callees]
                else:
                    disputed.add(key)
                    statements.dropped["contradict each other"] += 1
        self.not_calls |= statements.not_calls
        for reason, count in statements.dropped.items():
            self.dropped[f"{statements.evidence.name.lower()}: {reason}"] += count


@dataclass(slots=True)
class Statements:
    """The statements of one kind of evidence; several callees for one key are a contradiction."""

    evidence: Evidence
    calls: dict[Key, frozenset[Place]] = field(default_factory=dict)
    jumps: dict[Key, frozenset[Place]] = field(default_factory=dict)
    not_calls: set[Key] = field(default_factory=set)
    dropped: Counter[str] = field(default_factory=Counter)

    def state(self, key: Key, callees: frozenset[Place], *, is_jump: bool) -> None:
        """State that one of `callees` is called."""
        out = self.jumps if is_jump else self.calls
        known = out.setdefault(key, callees)
        if known is not callees:
            out[key] = known | callees
