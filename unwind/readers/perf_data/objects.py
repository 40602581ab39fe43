"""The vtable pointers of objects that lie in copied stacks, for frames that stay open without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icf.columns import U64
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data.dumps import Dumps
from unwind.readers.perf_data.events import Attr
from unwind.readers.perf_data.records import Records
from unwind.readers.perf_data.sample_fields import Fields
from unwind.readers.perf_data.views import View
from unwind.readers.source import Source
from unwind.readers.stack_objects import OpenFrames, StackObjects
from unwind.resolve.vptrs import Vptrs
from unwind.samples import columns as c
from unwind.samples._tree import frames_along
from unwind.samples.calls import CallTree, stacks_at
from unwind.samples.recording import RecordedProcess, Sample

_WORD_BYTES = 8
_Owner = tuple[Attr, View]


class Part(NamedTuple):
    """A part of a sample."""

    buffer: bytes
    start: int
    end: int


class CopiedObjects:
    """Reads them; nothing as long as `source.objects` is None."""

    def __init__(self, source: Source, dumps: Dumps, records: Records) -> None:
        self._source, self._dumps, self._records = source, dumps, records
        self._calls: CallTree | None = None
        self._open: dict[int, OpenFrames | None] = {}  # by node of that tree
        self._are_virtual: list[bool | None] = []  # frames, by number; None: not asked yet

    def vptrs(
        self, calls: CallTree, nodes: Sequence[int], owners: Sequence[_Owner], places: U64, buffer: bytes
    ) -> dict[int, Vptrs]:
        """Return the vtable pointers of the samples that have any, by their index.

        Args:
            calls: has the stacks.
            nodes: of the stack of each sample; NONE: it is not there.
            owners: the event of each, and what addresses mean in its process.
            places: u64[n, 2]: start and end of what varies in size in each sample.
            buffer: has all of them.
        """
        objects = self._source.objects
        if objects is None:
            return {}
        self._ask(objects, calls, nodes, owners)
        known, found = self._open, {}
        for idx, node in enumerate(nodes):
            wanted = known[node]
            if wanted is not None:
                start, end = places[idx].tolist()
                if _has_any(wanted, buffer, start, end):
                    sample = Sample(stacks_at(calls, [node])[0], owners[idx][1].process)
                    vptrs = self._read(objects, sample, wanted, owners[idx], Part(buffer, start, end))
                    if vptrs:
                        found[idx] = vptrs
        return found

    def _ask(self, objects: StackObjects, calls: CallTree, nodes: Sequence[int], owners: Sequence[_Owner]) -> None:
        """Find the open frames of stacks that are new."""
        if calls is not self._calls:
            self._calls, self._open, self._are_virtual = calls, {r.NONE: None}, []
        known, are_virtual = self._open, self._are_virtual
        new = {node: view.process for node, (_, view) in zip(nodes, owners, strict=True) if node not in known}
        if not new:
            return
        are_virtual += [None] * (len(calls.frames) - len(are_virtual))
        # most stacks have only frames that are known not to be
        along = frames_along(np.array(list(new), np.uint64).data, calls.nodes, are_virtual)
        maybe = [node for node, flags in zip(new, along, strict=True) if None in flags or True in flags]
        virtual = [node for node in maybe if self._has_virtual(objects, calls, node, new[node])]
        samples = [Sample(stack, new[node]) for node, stack in zip(virtual, stacks_at(calls, virtual), strict=True)]
        known.update(dict.fromkeys(new))
        known.update(zip(virtual, objects.open_frames(samples), strict=True))

    def _has_virtual(self, objects: StackObjects, calls: CallTree, node: int, process: RecordedProcess) -> bool:
        """Return whether a stack has a frame of a merged virtual function; asks about frames that are new."""
        has_any, are_virtual, entry = False, self._are_virtual, calls.nodes[node]
        while caller := entry >> c.NUMBER_BITS:
            number = entry & c.NUMBER_MASK
            is_virtual = are_virtual[number]
            if is_virtual is None:
                is_virtual = are_virtual[number] = objects.is_virtual(calls.frames[number], process)
            has_any, entry = has_any or is_virtual, calls.nodes[caller]
        return has_any

    def _read(self, objects: StackObjects, sample: Sample, wanted: OpenFrames, owner: _Owner, part: Part) -> Vptrs:
        attr, view = owner
        fields = Fields(attr, self._records, *part)
        fields.chain()
        fields.branches()
        state = fields.user_state()
        walk = self._dumps.walk(state, view) if state is not None else None
        if state is None or walk is None:
            return ()
        frames = walk.frames
        start = frames[0].registers[self._dumps.stack_pointer]
        return objects.vptrs(sample, wanted, frames, _Copy(start or 0, state.stack))


def _has_any(wanted: OpenFrames, buffer: bytes, start: int, end: int) -> bool:
    """Return whether one of the vtables stands in a sample: most have none."""
    words = np.frombuffer(buffer, np.uint64, (end - start) // _WORD_BYTES, start)
    near = words[(words >= wanted.vtables[0]) & (words <= wanted.vtables[-1])]
    return bool(np.isin(near, wanted.vtables).any())


class _Copy(NamedTuple):
    """Memory that was copied."""

    start: int
    content: memoryview

    def read(self, address: int, size_bytes: int, /) -> bytes | None:
        """Return that many bytes; None if one of them was not copied."""
        at = address - self.start
        return bytes(self.content[at : at + size_bytes]) if 0 <= at <= len(self.content) - size_bytes else None
