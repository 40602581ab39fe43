"""A frame together with the debug information of the image that its code is from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from icf.dwarf.cfi import rules
from icf.dwarf.cfi.frames import CallFrames
from icf.dwarf.prologues import Prologues
from icf.dwarf.scopes import Function, Parameter, Scopes
from icf.dwarf.typenames import Types
from icf.elf.image import Image
from icf.errors import FormatError
from unwind.objects.kept import Kept
from unwind.walk.frame import WalkedFrame

_KEPT_FUNCTIONS = 1 << 10
_PARTS_LIMIT = 8  # of a function


class Described:
    """The debug information of an image, as far as frames need it."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.scopes = Scopes(image)
        self.types = Types(self.scopes.trees)
        self.prologues = Prologues(image, self.scopes.trees.debug)
        self._call_frames: CallFrames | None = None
        self._kept: dict[Function, Kept] = {}
        self.objects: dict[int, list[tuple[Function, Parameter]]] = {}  # what `unwind.objects.this` keeps, by address

    def kept(self, function: Function) -> Kept:
        """Return where a function keeps its arguments."""
        found = self._kept.get(function)
        if found is None:
            if len(self._kept) >= _KEPT_FUNCTIONS:
                self._kept.clear()
            found = self._kept[function] = self._find_kept(function)
        return found

    def _find_kept(self, function: Function) -> Kept:
        """Return it for the function with all of its parts: folded ones are described as another function's."""
        ranges, wanted, has_pads = set(function.scopes[0].ranges), function.low, False
        for _ in range(_PARTS_LIMIT):
            start, end, part_has_pads = self._part_at(wanted) or (wanted, wanted, True)
            has_pads |= part_has_pads
            if not any(low <= wanted < high for low, high in ranges):
                ranges.add((start, end))
            found = Kept(self.image, sorted(ranges), function.low, has_pads=has_pads)
            if found.left_to is None or any(low <= found.left_to < high for low, high in ranges):
                break
            wanted = found.left_to
        return found

    def _part_at(self, vaddr: int) -> tuple[int, int, bool] | None:
        try:
            if self._call_frames is None:
                self._call_frames = CallFrames(self.image)
            return self._call_frames.part_at(vaddr)
        except FormatError:
            return None


ImageAt = Callable[[int], tuple[Described, int] | None]
"""Returns the debug information of the module at a run-time address, and its load bias; None if it has none."""


@dataclass(eq=False)
class Activation:
    """A frame, and the frame that called it; its debug information is looked for when it is first needed."""

    frame: WalkedFrame
    image_at: ImageAt
    caller: Activation | None = None

    @cached_property
    def _found(self) -> tuple[Described | None, int]:
        return self.image_at(self.frame.pc - self.frame.is_call) or (None, 0)

    @property
    def described(self) -> Described | None:
        """The debug information of the image that the code is from; None if it has none."""
        return self._found[0]

    @property
    def bias(self) -> int:
        """The run-time less the link-time addresses of that image."""
        return self._found[1]

    @property
    def vaddr(self) -> int:
        """The address to look up, as linked: that of the call, or the program counter."""
        return self.frame.pc - self.bias - self.frame.is_call

    @cached_property
    def functions(self) -> list[Function]:
        """The functions at that address: several if they were folded."""
        if self.described is None or not 0 <= self.vaddr < 1 << 64:
            return []
        return self.described.scopes.at(self.vaddr)

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


def activations(frames: Sequence[WalkedFrame], image_at: ImageAt) -> list[Activation]:
    """Return the frames of a stack, innermost first, each with its caller."""
    found: list[Activation] = []
    caller = None
    for frame in reversed(frames):
        caller = Activation(frame, image_at, caller)
        found.append(caller)
    return found[::-1]
