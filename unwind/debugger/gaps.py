"""Frames whose caller a debugger may have missed: those in code without call frame information.

gdb and lldb then guess where the caller is, from the first instructions of the function and the frame pointer. A wrong
guess looks like a stack, with frames left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from icf.log import warn
from icf.model import RuntimeAddr
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.module_list import LoadedModule
from unwind.process.process import Module, Process
from unwind.walk.images import ImageSteps

_KEPT = 1 << 18


class Gaps:
    """Knows for the addresses of a process whether a debugger finds the caller there; opens images as needed."""

    def __init__(self, process: Process, listed: Sequence[LoadedModule], images: ImageFinder) -> None:
        self._process, self._images = process, images
        self._build_ids = {each.path: each.build_id for each in listed}
        self._steps: dict[Module, ImageSteps | None] = {}
        self._known: dict[tuple[int, bool], bool] = {}

    def may_lose_caller(self, address: int | None, is_exact: bool) -> bool:
        """Return whether the frame at a program counter (`is_exact`) or return address may have another caller."""
        if address is None:
            return False
        known = self._known.get((address, is_exact))
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[address, is_exact] = self._is_gap(RuntimeAddr(address - (not is_exact)))
        return known

    def _is_gap(self, address: RuntimeAddr) -> bool:
        module = self._process.module_at(address)
        if module is None:
            return False  # its frame is unknown, and restricts no neighbour
        if module not in self._steps:
            self._steps[module] = self._open(module)
        steps = self._steps[module]
        return steps is None or steps.row_at(module.linked(address)) is None

    def _open(self, module: Module) -> ImageSteps | None:
        image = self._images.find(Sought(module.path, self._build_ids[module.path]))
        return None if isinstance(image, str) else ImageSteps(image, lambda error: warn(str(error)))
