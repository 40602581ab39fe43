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
from unwind.samples.calls import CallTree, stacks_at
from unwind.samples.recording import Sample

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
            self._calls, self._open = calls, {r.NONE: None}
        known = self._open
        new = {node: view.process for node, (_, view) in zip(nodes, owners, strict=True) if node not in known}
        if new:
            samples = map(Sample, stacks_at(calls, list(new)), new.values())
            known.update(zip(new, objects.open_frames(list(samples)), strict=True))

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
