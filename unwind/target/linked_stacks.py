"""The stacks of a recording with addresses as linked, to be resolved elsewhere, where its processes mean nothing.

    0x7f0000001136 in /usr/lib/libx.so at 0x7f0000000000     ->     0x1136 of the build c9d4cd3e..

A frame outside of all images, or of one that is not found here, has no address then. A name that the recording has for
it is not kept.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from icf.errors import IcfError
from unwind.samples.recording import RecordedFrame, RecordedModule, RecordedProcess, Sample
from unwind.target.recorded_images import RecordedImages

_KEPT = 1 << 20
_NOWHERE: tuple[int | None, str | None] = None, None


class LinkedStack(NamedTuple):
    """A stack, innermost first.

    Attributes:
        addresses: as linked; None for a frame outside of all images.
        modules: of each address the build id of its image in hexadecimal digits, or the path of one without.
        exact: of each, whether it is a program counter.
        vptrs: of each the vtable pointer that its `this` held, as linked, or None.
    """

    addresses: list[int | None]
    modules: list[str | None]
    exact: list[bool]
    vptrs: list[int | None]


class LinkedStacks:
    """Moves the stacks of one recording."""

    def __init__(self, images: RecordedImages) -> None:
        self._images = images
        self._known: dict[tuple[RecordedFrame, str], tuple[int | None, str | None]] = {}

    def of(self, sample: Sample) -> LinkedStack:
        """Return the stack of a sample; `IcfError` for calls that the processor noted: Parquet has no column for them.

        Vtable pointers are kept of stacks with one module: in others they do not say whose they are.
        """
        placed = [self._place(frame, sample.process) for frame in sample.frames]
        exact = [frame.is_exact or not (idx or sample.is_called) for idx, frame in enumerate(sample.frames)]
        vptrs: list[int | None] = [None] * len(placed)
        modules = {frame.module for frame in sample.frames if frame.module is not None}
        if sample.vptrs and len(modules) == 1:
            located = self._images.locate(modules.pop(), sample.process.root)
            for idx, vptr in sample.vptrs:
                if located is not None and vptr + located.to_linked >= 0:
                    vptrs[idx] = vptr + located.to_linked
        return LinkedStack([each for each, _ in placed], [module for _, module in placed], exact, vptrs)

    def _place(self, frame: RecordedFrame, process: RecordedProcess) -> tuple[int | None, str | None]:
        key = frame, process.root
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[key] = self._find(frame, process)
        return known

    def _find(self, frame: RecordedFrame, process: RecordedProcess) -> tuple[int | None, str | None]:
        if frame.callee:
            raise IcfError(
                "the stacks have calls that the processor noted, of which stacks in Parquet have no form",
                hint="resolve them here: --out parquet",
            )
        if frame.address is None or frame.module is None:
            return _NOWHERE
        located = self._images.locate(frame.module, process.root)
        address = self._images.address(frame.address, frame.module, process.root, in_call=frame.in_call)
        if located is None or address is None:
            return _NOWHERE
        image = located.image
        build_id = image.image.build_id if image.image is not None else frame.module.build_id
        return address - image.bias, build_id.hex() if _is_long(build_id) else _path(image.path, frame.module)


def _is_long(build_id: bytes) -> bool:
    return 8 <= len(build_id) <= 32


def _path(path: str, module: RecordedModule) -> str:
    return os.path.abspath(path) if path else module.path
