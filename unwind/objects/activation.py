"""A frame together with the debug information of the image that its code is from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from icf.dwarf.cfi import rules
from icf.dwarf.prologues import Prologues
from icf.dwarf.scopes import Function, Scopes
from icf.dwarf.typenames import Types
from icf.elf.image import Image
from unwind.walk.frame import WalkedFrame


class Described:
    """The debug information of an image, as far as frames need it."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.scopes = Scopes(image)
        self.types = Types(self.scopes.trees)
        self.prologues = Prologues(image, self.scopes.trees.debug)


@dataclass(eq=False)
class Activation:
    """A frame, the image that its code is from (None: not known), its load bias, and the frame that called it."""

    frame: WalkedFrame
    described: Described | None
    bias: int = 0  # run-time less link-time addresses
    caller: Activation | None = None

    @property
    def vaddr(self) -> int:
        """The address to look up, as linked: that of the call, or the program counter."""
        return self.frame.pc - self.bias - self.frame.is_call

    @cached_property
    def functions(self) -> list[Function]:
        """The functions at that address: several if they were folded."""
        return [] if self.described is None or self.vaddr < 0 else self.described.scopes.at(self.vaddr)

    @cached_property
    def registers(self) -> tuple[memoryview, int]:
        """The registers, and a mask of those that are known."""
        values = self.frame.registers[: rules.REGISTER_COUNT]
        words = np.zeros(rules.REGISTER_COUNT, np.uint64)
        known = 0
        for number, value in enumerate(values):
            if value is not None:
                words[number] = value
                known |= 1 << number
        return words.data, known

    def register(self, number: int) -> int | None:
        """Return the value of a register; None if it is not known."""
        return self.frame.registers[number] if number < len(self.frame.registers) else None


def activations(
    frames: Sequence[WalkedFrame], image_at: Callable[[int], tuple[Described, int] | None]
) -> list[Activation]:
    """Return the frames of a stack, innermost first, each with its caller.

    `image_at`: the debug information of the module at a run-time address, and its load bias; None if it has none.
    """
    found: list[Activation] = []
    caller = None
    for frame in reversed(frames):
        described, bias = image_at(frame.pc - frame.is_call) or (None, 0)
        caller = Activation(frame, described, bias, caller)
        found.append(caller)
    return found[::-1]
