"""A frame as its caller's relation to it sees it, and where calls through pointers can end in its body."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from unwind.program.program import Body
from unwind.resolve.vptrs import destructors


class Callee(NamedTuple):
    """The body of a frame, and the facts about the object that it is called for."""

    body: Body
    vptr: int = 0  # 0: not known
    is_entry: bool = False  # it stands at its first instruction

    def by_slots(self, slots: Collection[int]) -> int:
        """Return the members of the body that jumps or calls by `slots` can end up in.

        Once a destructor runs it may have moved the vtable pointer to the vtable of a base: members that are
        destructors then stay where their call is possible at all.
        """
        program = self.body.program
        allowed = program.by_slots(self.body, slots, self.vptr)
        if self.vptr and not self.is_entry:
            allowed |= program.by_slots(self.body, slots) & destructors(self.body)
        return allowed
