"""The images of a process in a debugger, and its memory, which the debugger reads when it is asked.

A debugger finds the caller of a frame by call frame information. Of code that has none it guesses where the caller is,
from the first instructions of the function and the frame pointer. A wrong guess looks like a stack, with frames left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icf.model import RuntimeAddr
from unwind.dumps.loaded import LoadedImage, loaded
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.module_list import LoadedModule
from unwind.process.process import Module, Process

_KEPT = 1 << 18

Read = Callable[[int, int], bytes | None]
"""Returns memory of the process: address, size in bytes; None if it is not known."""


class DebuggedImages:
    """Finds the images by run-time addresses; each is opened when it is first needed, and closed with `finder`."""

    def __init__(self, process: Process, listed: Sequence[LoadedModule], finder: ImageFinder, read: Read) -> None:
        self._process, self._finder, self.read = process, finder, read
        self._build_ids = {each.path: each.build_id for each in listed}
        self._images: dict[Module, LoadedImage | None] = {}
        self._gaps: dict[tuple[int, bool], bool] = {}

    def at(self, address: int) -> LoadedImage | None:
        """Return the image that lies at an address; None if it is not found, or nothing lies there."""
        module = self._process.module_at(RuntimeAddr(address))
        if module is None:
            return None
        if module not in self._images:
            image = self._finder.find(Sought(module.path, self._build_ids[module.path]))
            place = module.bias, module.start, module.end
            self._images[module] = None if isinstance(image, str) else loaded(image, *place)
        return self._images[module]

    def problem_at(self, address: int) -> str:
        """Return an empty text: what is not found is reported where the modules are opened."""
        del address
        return ""

    def may_lose_caller(self, address: int | None, is_exact: bool) -> bool:
        """Return whether the frame at a program counter (`is_exact`) or return address may have another caller.

        A frame in no module is unknown, and restricts no neighbour.
        """
        if address is None:
            return False
        known = self._gaps.get((address, is_exact))
        if known is None:
            if len(self._gaps) >= _KEPT:
                self._gaps.clear()
            known = self._gaps[address, is_exact] = self._is_gap(address - (not is_exact))
        return known

    def _is_gap(self, address: int) -> bool:
        if self._process.module_at(RuntimeAddr(address)) is None:
            return False
        found = self.at(address)
        return found is None or found.steps.row_at(address - found.bias) is None
