"""The vtable pointers of objects in the stacks of a recording that has copies of them.

A copy begins at the stack pointer and ends after some kilobytes: it holds objects that are variables of a caller. What
lies on the heap was not recorded.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unwind.readers.stack_objects import OpenFrames
from unwind.resolve.vptrs import Vptrs, read_vptrs
from unwind.samples.recording import RecordedFrame, RecordedModule, RecordedProcess, Sample
from unwind.target.described import DescribedImages
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.target.thread_objects import open_frames
from unwind.walk.frame import Memory, WalkedFrame

if TYPE_CHECKING:
    from unwind.objects.activation import Described

_WORD_BYTES = 8
_PLACES_LIMIT = 1 << 10  # of a frame


class RecordedObjects:
    """Reads them: a `unwind.readers.stack_objects.StackObjects`."""

    def __init__(self, resolver: RecordedResolver, search: SearchPaths) -> None:
        self._resolver, self._described = resolver, DescribedImages(search)
        self._vtables: dict[RecordedFrame, frozenset[int]] = {}  # of frames that are such; run-time addresses

    def is_virtual(self, frame: RecordedFrame, process: RecordedProcess) -> bool:
        """Return whether a frame of a process lies in a body of merged virtual functions."""
        body = self._resolver.merged_body(frame, process)
        if body is None or frame.module is None:
            return False
        vtables = body.program.dispatch.slots.vtables_for(body.class_idx)
        image = self._resolver.image_of(frame.module, process.root) if vtables else None
        if image is not None:
            self._vtables[frame] = frozenset(vptr + image[1] for vptr in vtables)
        return image is not None

    def open_frames(self, stacks: Sequence[Sample]) -> list[OpenFrames | None]:
        """Return the open frames of each stack; None if it has none that an object would help."""
        found: list[OpenFrames | None] = []
        for stack, answers in self._resolver.resolve(stacks):
            frames = tuple([at for at in open_frames(answers) if stack.frames[at] in self._vtables])
            vtables = set[int]().union(*(self._vtables[stack.frames[at]] for at in frames))
            found.append(OpenFrames(frames, np.array(sorted(vtables), np.uint64)) if frames else None)
        return found

    def vptrs(self, stack: Sample, wanted: OpenFrames, walked: Sequence[WalkedFrame], memory: Memory) -> Vptrs:
        """Return the vtable pointers of open frames where they are known; `walked` are the outermost frames."""
        first = len(stack.frames) - len(walked)
        vtables = set(wanted.vtables.tolist())
        places = [idx - first for idx in wanted.frames if idx >= first]
        held = [place for place in places if _may_hold(walked, place, vtables, memory)]
        if not held:
            return ()
        from unwind.objects.activation import activations
        from unwind.objects.this import read_objects

        pairs = zip(walked, stack.frames[first:], strict=True)
        modules = {each.pc - each.is_call: frame.module for each, frame in pairs}
        active = activations(walked, partial(self._image_at, modules, stack.process.root))
        objects = read_objects(active, memory, held)
        return read_vptrs({idx + first: address for idx, address in objects.items()}, memory.read)

    def _image_at(
        self, modules: Mapping[int, RecordedModule | None], root: str, address: int
    ) -> tuple[Described, int] | None:
        module = modules.get(address)
        found = None if module is None else self._resolver.image_of(module, root)
        described = None if found is None else self._described.of(found[0])
        return None if found is None or described is None else (described, found[1])


def _may_hold(walked: Sequence[WalkedFrame], idx: int, vtables: Container[int], memory: Memory) -> bool:
    """Return whether a register or the part of a frame holds the address of one of the vtable pointers.

    Few frames do, and to read their debug information takes a thousand times longer.
    """
    frame, end = walked[idx], walked[idx - 1].cfa if idx else 0
    places = {value for value in frame.registers if value is not None}
    at = frame.cfa - _WORD_BYTES
    while at >= end and len(places) < _PLACES_LIMIT and (word := memory.read(at, _WORD_BYTES)) is not None:
        places.add(int.from_bytes(word, "little"))
        at -= _WORD_BYTES
    words = (memory.read(place, _WORD_BYTES) for place in places)
    return any(word is not None and int.from_bytes(word, "little") in vtables for word in words)
