# cython: language_level=3, boundscheck=True, wraparound=False
"""Follows the steps of a resolver along a stack (`unwind.resolve.walk`).

    state of the caller, frame ──turns──> step of the frame ──> its answer
                                                            ──> its state

    turns   u64[2 ** n, 3]: state of the caller << KIND_BITS | kind of the frame (0: a free place), its address,
            its state << STATE_BIT | its step | HELD; at least half of the places are free, and steps and states have
            numbers from 1 on

The kernel makes no steps: it stops at a frame for which the table has none, and goes on there when it is called again.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK
    from cython.cimports.icf._types import u64
    from cython.cimports.unwind.resolve import columns as c
    from cython.cimports.unwind.samples._table import hashed
else:
    from icf._bytes import MASK
    from icf._types import u64
    from unwind.resolve import columns as c
    from unwind.samples._table import hashed


@cython.cclass
class Turns:
    """The steps from a caller to a frame, and the stack that was followed last.

    After `follow` returned None it has so many frames `left` without a step, and the state `caller` of the frame before
    them; `path` has the steps of the others, innermost first.
    """

    turns: u64[:, ::1]
    path: u64[::1]
    numbers: dict
    answers: list
    left = cython.declare(cython.size_t, visibility="readonly")
    caller = cython.declare(u64, visibility="readonly")

    def __init__(self, turns: u64[:, ::1], path: u64[::1], numbers: dict, answers: list) -> None:
        """Begin with an empty table.

        path     room for the steps of a stack
        numbers  of the frames that are not addresses alone, from 1 on
        answers  by step
        """
        self.turns, self.path, self.numbers, self.answers = turns, path, numbers, answers
        self.left = self.caller = 0

    def room(self, path: u64[::1]) -> None:
        """Take more room for the steps of a stack."""
        self.path = path

    def follow(self, frames: tuple, begin: cython.size_t = 0) -> object:
        """Return the answers for a stack, a tuple, innermost first; None if a step is not known or one is HELD.

        frames   innermost first; raises OverflowError for a number of more than 64 bits
        begin    0, or, to go on, so many frames as are `left`
        """
        left: cython.size_t = begin
        count: cython.size_t = len(frames)
        state: u64 = 1
        held: u64 = 0
        kind: u64
        address: u64
        place: u64
        mask: u64 = self.turns.shape[0] - 1
        if left == 0:
            left = count
        else:
            state = self.path[left] >> c.STATE_BIT if left < count else 1
        while left > 0:
            kind = state << c.KIND_BITS
            if left == 1:
                kind |= c.INNERMOST
            frame = frames[left - 1]
            if type(frame) is int:
                if not cython.compiled and not 0 <= frame <= MASK:
                    raise OverflowError
                address = frame
            else:
                kind |= c.NUMBERED
                address = self.numbers.get(frame, 0)
            place = hashed(address, kind) & mask
            while self.turns[place, 0] != kind or self.turns[place, 1] != address:
                if self.turns[place, 0] == 0:
                    self.left, self.caller = left, state
                    return None
                place = (place + 1) & mask
            left -= 1
            self.path[left] = self.turns[place, 2]
            state = self.turns[place, 2] >> c.STATE_BIT
        self.left = 0
        for left in range(count):
            held |= self.path[left]
        if held & c.HELD:
            return None
        return tuple([self.answers[self.path[left] & c.STEP_MASK] for left in range(count)])

    def add(self, caller: u64, address: u64, step: u64) -> None:
        """Store a turn that is not there yet; the caller of this function has left places free."""
        self._insert(self.turns, caller, address, step)

    def grow(self, larger: u64[:, ::1]) -> None:
        """Go on with a larger table, which is empty."""
        row: cython.size_t = 0
        while row < self.turns.shape[0]:
            if self.turns[row, 0] != 0:
                self._insert(larger, self.turns[row, 0], self.turns[row, 1], self.turns[row, 2])
            row += 1
        self.turns = larger

    @cython.cfunc
    @cython.inline
    def _insert(self, turns: u64[:, ::1], caller: u64, address: u64, step: u64):
        mask: u64 = turns.shape[0] - 1
        place: u64 = hashed(address, caller) & mask
        while turns[place, 0] != 0:
            place = (place + 1) & mask
        turns[place, 0] = caller
        turns[place, 1] = address
        turns[place, 2] = step
