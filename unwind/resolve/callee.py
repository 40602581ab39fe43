"""A frame as its caller's relation to it sees it, and where calls through pointers can end in its body."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from unwind.program.program import Body
from unwind.program.ways import Way
from unwind.resolve.vptrs import destructors


class Callee(NamedTuple):
    """The body of a frame, and the facts about the object that it is called for."""

    body: Body
    vptr: int = 0  # 0: not known
    is_entry: bool = False  # it stands at its first instruction

    def by_ways(self, ways: Collection[Way], *, keeps_types: bool = False) -> int:
        """Return the members of the body that jumps or calls by `ways` can end up in.

        Once a destructor runs it may have moved the vtable pointer to the vtable of a base: members that are
        destructors then stay where their call is possible at all. If no member is left, an object was not of its
        declared type: unless `keeps_types`, the types then do not count.
        """
        program = self.body.program
        allowed = program.by_ways(self.body, ways, self.vptr)
        if self.vptr and not self.is_entry and (others := program.by_ways(self.body, ways) & ~allowed):
            allowed |= others & destructors(self.body)
        if not allowed and not keeps_types and any(way.family for way in ways):
            return self.by_ways({way.untyped for way in ways})
        return allowed
