"""Stacks from registers and copies of the stack: `perf record --call-graph dwarf`.

perf copies the registers and what lies above the stack pointer, 8 KiB unless asked for more. A deeper stack ends where
the copy ends.

    view (what is mapped) ──> image and its load bias ──> row of an address ──> `unwind.walk`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.columns import U64
from icf.dwarf.cfi.frames import Row
from icf.elf.image import Image
from icf.elf.types import Machine
from icf.errors import FormatError
from icf.log import warn
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.load_address import bias_of_listed
from unwind.process.maps import VDSO
from unwind.readers.perf_data.changes import Mapped
from unwind.readers.perf_data.frames import Frames
from unwind.readers.perf_data.sample_fields import UserState
from unwind.readers.perf_data.views import View
from unwind.samples.recording import RecordedModule
from unwind.walk.images import ImageSteps
from unwind.walk.vdso import RecordedVdso
from unwind.walk.walker import Steps, Walk, Walker

ABI_64 = 2
_LAST = (1 << 64) - 1
_KEPT_WALKERS = 256
_X86_64 = (0, 3, 2, 1, 4, 5, 6, 7, 16, -1, -1, -1, -1, -1, -1, -1, 8, 9, 10, 11, 12, 13, 14, 15)
# DWARF's numbers of the registers of asm/perf_regs.h, -1: not needed; and that of the stack pointer
_REGISTERS: dict[str, tuple[Machine, tuple[int, ...], int]] = {
    "x86_64": (Machine.X86_64, _X86_64, 7),
    "aarch64": (Machine.AARCH64, tuple(range(33)), 31),
    "arm64": (Machine.AARCH64, tuple(range(33)), 31),
}
_Order = tuple[NDArray[np.intp], NDArray[np.intp], int]


class _Image(NamedTuple):
    image: Image
    steps: ImageSteps


class _Placed(NamedTuple):
    steps: ImageSteps
    bias: int


class Dumps:
    """Unwinds the samples of a recording."""

    def __init__(self, arch: str, finder: ImageFinder, vdso: RecordedVdso) -> None:
        machine: Machine | None = None
        self._numbers: tuple[int, ...] = ()
        self._sp = 0
        if arch in _REGISTERS:
            machine, self._numbers, self._sp = _REGISTERS[arch]
        self._steps = Steps(machine) if machine is not None else None
        self._images, self._vdso = finder, vdso
        self._steps_of: dict[Sought, _Image | None] = {}
        self._placed: dict[tuple[RecordedModule, str], _Placed | None] = {}  # by the root of the process, too
        self._walkers: dict[View, Walker] = {}
        self._orders: dict[int, _Order] = {}
        self._range = np.zeros((1, 3), np.uint64).data  # of the copy of the stack

    @property
    def stack_pointer(self) -> int:
        """The stack pointer, by DWARF's number."""
        return self._sp

    def frames(self, state: UserState, view: View) -> Frames:
        """Return the frames of the program's stack, innermost first; none if its registers are not understood."""
        walk = self.walk(state, view)
        if walk is None:
            return ()
        at_exact = set(walk.exact())
        return tuple(
            (view.user.exact if at in at_exact else view.user.called)[address]
            for at, address in enumerate(walk.addresses())
        )

    def walk(self, state: UserState, view: View) -> Walk | None:
        """Return the walk of the program's stack; None if its registers are not understood."""
        if self._steps is None or state.abi != ABI_64:
            return None
        taken, numbers, known = self._orders.get(state.mask) or self._order(state.mask)
        if not known:
            return None
        walker = self._walkers.get(view) or self._walker(view)
        walker.registers[numbers] = np.frombuffer(state.registers, np.uint64)[taken]
        sp = int(walker.registers[self._sp])
        self._range[0, 0], self._range[0, 1] = sp, min(sp + len(state.stack), _LAST)
        return walker.walk_registers(known, state.stack, self._range)

    def walk_all(self, mask: int, view: View, buffer: bytes, copies: U64) -> U64 | None:
        """Return the addresses of stacks of one process, as `Walker.walk_copies` does; None if its registers are not
        understood.
        """
        if self._steps is None:
            return None
        taken, numbers, known = self._orders.get(mask) or self._order(mask)
        if not known:
            return None
        walker = self._walkers.get(view) or self._walker(view)
        order = np.stack([taken, numbers], axis=1).astype(np.uint64)
        return walker.walk_copies(known, order.data, memoryview(buffer), copies.data)

    def _order(self, mask: int) -> _Order:
        """Return which of the recorded registers are needed, their numbers, and a bit for each; 0: not enough."""
        bits = [bit for bit in range(64) if mask >> bit & 1]
        pairs = [(at, self._numbers[bit]) for at, bit in enumerate(bits) if bit < len(self._numbers)]
        pairs = [(at, number) for at, number in pairs if number >= 0]
        known = sum(1 << number for _, number in pairs)
        needed = 1 << self._sp | 1 << (16 if self._sp == 7 else 32)
        order = np.array([at for at, _ in pairs], np.intp), np.array([number for _, number in pairs], np.intp)
        self._orders[mask] = *order, known if known & needed == needed else 0
        return self._orders[mask]

    def _walker(self, view: View) -> Walker:
        assert self._steps is not None
        if len(self._walkers) >= _KEPT_WALKERS:
            self._walkers.clear()
        walker = self._walkers[view] = Walker(self._steps, self._finder(view.find, view.process.root))
        return walker

    def _finder(self, find: Callable[[int], Mapped | None], root: str) -> Callable[[int], Row | None]:
        def row_at(address: int) -> Row | None:
            mapped = find(address)
            if mapped is None:
                return None
            if mapped.module is not None:
                return self._row(mapped.module, root, address)
            return self._vdso_row(mapped.start, address) if mapped.path == VDSO else None

        return row_at

    def _row(self, module: RecordedModule, root: str, address: int) -> Row | None:
        key = module, root
        if key not in self._placed:
            self._placed[key] = self._place(module, root)
        placed = self._placed[key]
        return None if placed is None or address < placed.bias else placed.steps.row_at(address - placed.bias)

    def _place(self, module: RecordedModule, root: str) -> _Placed | None:
        sought = Sought.of(module, root)
        if sought not in self._steps_of:
            self._steps_of[sought] = self._open(sought)
        known = self._steps_of[sought]
        bias = None if known is None else bias_of_listed(((module.start, module.offset),), known.image.segments)
        return None if known is None or bias is None else _Placed(known.steps, bias)

    def _open(self, sought: Sought) -> _Image | None:
        image = self._images.find(sought)
        if isinstance(image, str):
            self._images.end_stacks(image)
            return None
        if self._steps is None or image.machine is not self._steps.machine:
            self._images.end_stacks(f"{image.path}: is for another processor")
            return None
        return _Image(image, ImageSteps(image, _report))

    def _vdso_row(self, start: int, address: int) -> Row | None:
        image = self._vdso.image_at(start)
        if image is None:
            return None
        sought = Sought(VDSO)
        if sought not in self._steps_of:
            self._steps_of[sought] = _Image(image, ImageSteps(image, _report))
        known = self._steps_of[sought]
        return known.steps.row_at(address - start) if known is not None else None


def _report(error: FormatError) -> None:
    warn(f"{error}: stacks end at code without call frames")
