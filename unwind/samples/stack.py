"""A stack as the resolver takes it: addresses, innermost first, and the facts sampled with them.

The first address is a program counter, all others are return addresses, as they stood on the stack or less one; but
those of frames that a signal interrupted are *exact*: program counters, too. `None` is a frame outside of the image:
an unknown function then called the frame inwards of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stack:
    """One sampled stack.

    Attributes:
        addresses: innermost first: a program counter, then return addresses; None for a frame outside of the image.
        weight: how often the stack was seen.
        vptrs: (frame index, vtable pointer that the frame's `this` held).
        exact: indices of further frames whose address is a program counter: those that a signal interrupted.
    """

    addresses: tuple[int | None, ...]
    weight: int = 1
    vptrs: tuple[tuple[int, int], ...] = ()  # (frame index, vtable pointer that the frame's `this` held)
    exact: tuple[int, ...] = ()  # frames other than the first whose address is a program counter, by index
