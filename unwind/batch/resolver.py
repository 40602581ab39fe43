"""Resolves record batches of stacks (`unwind.arrow.stacks`) to record batches of answers (`unwind.arrow.answers`).

    addresses ──> number of the stack ──> row of each frame ──> frames
                      │  new ones alone        ▲
                      └──> tree of calls ──> states, or whole stacks

A stack is looked up once, however many rows have it. No row becomes an object. The answers for a row follow from that
row alone, so they are the same however the rows are divided among workers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from icf.columns import U32, U64
from unwind.arrow.answers import SCHEMA
from unwind.arrow.frames import FrameTable
from unwind.arrow.stacks import StackReader, Stacks
from unwind.process.image_finder import ImageFinder
from unwind.resolve.resolved import AnsweredTree
from unwind.samples._stack_columns import rows_along
from unwind.samples.calls import stacks_at
from unwind.samples.recording import Losses, RecordedModule, RecordedProcess, Sample
from unwind.samples.stack_columns import NewStacks
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths

_KEPT_ANSWERS = 1 << 20
_KEPT_PROCESSES = 1 << 12


class BatchResolver:
    """Resolves batches, with one look at each image and symcache; to be closed.

    Args:
        image: path of the image that stacks without modules are of.
        losses: the frames that the stacks may lack.
        search: where symcaches and debug files are.
        module_roots: further directories to search for modules, by build id and by path.
        with_lines: whether frames have files and lines.
        use_vptrs: whether vtable pointers count.
        on_module: called for each module before it is looked for.
        path: what the batches are called in messages.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        losses: Losses = Losses.FRAME_POINTERS,
        search: SearchPaths | None = None,
        module_roots: Sequence[str] = (),
        with_lines: bool = True,
        use_vptrs: bool = True,
        on_module: Callable[[RecordedModule], None] = lambda _: None,
        path: str = "stacks",
    ) -> None:
        self._image, self._losses, self._search = image, losses, search or SearchPaths()
        self._roots, self._with_lines, self._use_vptrs, self._path = module_roots, with_lines, use_vptrs, path
        self._on_module = on_module
        self._is_any_known = False
        self._open()

    @property
    def is_any_known(self) -> bool:
        """Whether any frame so far is known."""
        return self._is_any_known

    def resolve(self, batch: Any) -> Any:
        """Return the answers for the stacks of a record batch, a row for each, in order.

        Raises `IcfError` for a column or value that breaks its rule, and for an image that cannot be read.
        """
        if len(self._frames) > _KEPT_ANSWERS or len(self._problems) > _KEPT_PROCESSES:
            self.close()
            self._open()
        stacks = self._reader.read(batch)
        for module in {module for process in stacks.processes for module in process.modules} - self._met:
            self._met.add(module)
            self._on_module(module)
        table = self._reader.table
        roots = [table.calls.root(process) for process in stacks.processes]
        numbers, new = table.keep(
            stacks.addresses, stacks.kinds, stacks.starts, np.array(roots, np.uint64)[stacks.process]
        )
        if len(new.nodes):
            self._answer(new, dict(zip(roots, stacks.processes, strict=True)))
        rows = table.rows_of(numbers, stacks.starts)
        if stacks.vptrs and self._use_vptrs:
            self._answer_with_vptrs(stacks, numbers, rows)
        self._is_any_known = self._is_any_known or self._frames.is_any_known
        frames = self._frames.frames(rows, stacks.starts, stacks.values)
        problems = [self._problem(process) for process in stacks.processes]
        return pa.RecordBatch.from_arrays(
            [frames, pa.array(stacks.weights), _coded(problems, stacks.process)], schema=SCHEMA
        )

    def report(self) -> None:
        """Report modules that were not found or do not fit, and callers that may be missing."""
        self._resolver.report()

    def close(self) -> None:
        """Close the images."""
        self._resolver.close()
        self._finder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        self._finder = ImageFinder(self._roots, self._search.debug_roots, self._image)
        self._resolver = RecordedResolver(self._search, self._finder, losses=self._losses, with_lines=self._with_lines)
        self._reader = StackReader(self._path, self._image)
        self._frames = FrameTable(with_lines=self._with_lines)
        self._problems: dict[RecordedProcess, str | None] = {}
        self._met: set[RecordedModule] = set()
        self._tree: AnsweredTree | None = None  # of the states that have a row
        self._rows = array("I")  # by state

    def _answer(self, new: NewStacks, processes: dict[int, RecordedProcess]) -> None:
        """Keep a row for each frame of stacks that are new."""
        table = self._reader.table
        tree, _, whole = self._resolver.of_columns(table.calls, new, processes)
        if tree is not self._tree:
            self._tree, self._rows = tree, array("I")
        self._rows.extend(self._frames.row(answer) for answer in tree.answers[len(self._rows) :])
        rows_along(
            new.nodes.data, new.starts.data, table.calls.nodes, tree.states, memoryview(self._rows), table.rows.data
        )
        for idx, resolved in whole:
            start = int(new.starts[idx])
            table.rows[start : start + len(resolved.answers)] = [self._frames.row(each) for each in resolved.answers]

    def _answer_with_vptrs(self, stacks: Stacks, numbers: U32, rows: U32) -> None:
        """Put in the rows of stacks with vtable pointers; these count where all frames are of one module."""
        table = self._reader.table
        at = [row for row in stacks.vptrs if len(stacks.processes[stacks.process[row]].modules) == 1]
        nodes: U64 = table.nodes[numbers[at]]
        samples = [
            Sample(
                stack, stacks.processes[stacks.process[row]], vptrs=stacks.vptrs[row], is_called=table.is_called(number)
            )
            for row, number, stack in zip(at, numbers[at].tolist(), stacks_at(table.calls, nodes.tolist()), strict=True)
        ]
        for row, resolved in zip(at, self._resolver.resolve(samples), strict=True):
            start = int(stacks.starts[row])
            rows[start : start + len(resolved.answers)] = [self._frames.row(each) for each in resolved.answers]

    def _problem(self, process: RecordedProcess) -> str | None:
        """Return which modules of a process were not found."""
        if process not in self._problems:
            missing = self._resolver.missing(process)
            self._problems[process] = f"not found: {', '.join(missing)}" if missing else None
        return self._problems[process]


def _coded(texts: Sequence[str | None], codes: Any) -> Any:
    """Return a column of texts, each by its index."""
    known = [text for text in texts if text is not None]
    numbers = iter(range(len(known)))
    of_text = np.array([-1 if text is None else next(numbers) for text in texts], np.int32)[codes]
    return pa.DictionaryArray.from_arrays(pa.array(of_text, mask=of_text < 0), pa.array(known, pa.string()))
