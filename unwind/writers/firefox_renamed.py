"""Write a processed profile of the Firefox Profiler again, with right names.

Rows are added and none is changed: markers and whatever else means a row by its number stays right. A sample gets a new
stack where a frame of it has another name; a frame that stands in two stacks as two functions is then two frames.

A library of which no frame is merged keeps the names that it has. A name that is an address is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from icf.model import Verdict
from unwind.readers.firefox import FirefoxOrigin, StackOrigin
from unwind.readers.firefox_tables import FirefoxThread
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import RecordedFrame, RecordedModule
from unwind.symbolize.answer import Answer
from unwind.writers.firefox_rows import ThreadRows
from unwind.writers.named import NamedFrame, Namer

_SAMPLES = "samples", "nativeAllocations"
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")

_Stack = tuple[tuple[RecordedFrame, ...], tuple[Answer, ...]]


class RenamedFirefoxWriter:
    """Collects what frames are, and writes the profile when all samples are there."""

    def __init__(self, origin: FirefoxOrigin, namer: Namer) -> None:
        self._origin, self._namer = origin, namer
        self._stacks: list[dict[int, _Stack]] = [{} for _ in origin.threads]  # of each thread, by row of stackTable
        self._merged: set[RecordedModule] = set()

    def write(self, resolved: Resolved) -> bytes:
        """Add a sample; nothing is written yet."""
        at = resolved.sample.origin
        if isinstance(at, StackOrigin) and at.stack_idx not in self._stacks[at.thread_idx]:
            stack = self._stacks[at.thread_idx][at.stack_idx] = resolved.sample.frames, resolved.answers
            for frame, answer in zip(*stack, strict=True):
                if len(answer.members) > 1 and frame.module is not None:
                    self._merged.add(frame.module)
        return b""

    def end(self) -> Iterator[bytes]:
        """Yield the file."""
        profile: dict[str, Any] = _copied(self._origin.profile)
        shared = profile.get("shared")
        rows: dict[int, ThreadRows] = {}
        is_renamed = False
        for thread, old, stacks in zip(profile["threads"], self._origin.threads, self._stacks, strict=True):
            tables = {**(shared if isinstance(shared, dict) else {}), **thread}
            renaming = _Renaming(rows.setdefault(id(tables["stackTable"]), ThreadRows(tables)), old, self._has_better)
            new = {idx: renaming.stack(idx, stack, self._namer) for idx, stack in stacks.items()}
            is_renamed = is_renamed or any(idx != row for idx, row in new.items())
            for name in _SAMPLES:
                if old.has(name):
                    column = thread[name]["stack"]
                    column[:] = [new.get(each, each) for each in column]
        if is_renamed:
            profile["meta"]["symbolicated"] = True  # or the viewer looks names up itself
        yield json.dumps(profile, separators=(",", ":")).encode()

    def _has_better(self, frame: RecordedFrame, answer: Answer) -> bool:
        """Tell whether what is known of a frame is more than the profile has."""
        if answer.verdict is Verdict.UNKNOWN or frame.module is None:
            return False
        return frame.module in self._merged or not frame.name or bool(_ADDRESS.fullmatch(frame.name))


def _copied(value: Any) -> Any:
    """Return a copy of a part of a profile whose tables can grow: what is in their cells is shared."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copied(each) for each in value] if value and isinstance(value[0], dict) else value.copy()
    return value


class _Renaming:
    """The stacks of one thread."""

    def __init__(
        self, rows: ThreadRows, thread: FirefoxThread, has_better: Callable[[RecordedFrame, Answer], bool]
    ) -> None:
        self._rows, self._thread, self._has_better = rows, thread, has_better

    def stack(self, stack_idx: int, stack: _Stack, namer: Namer) -> int:
        """Return the row of a stack with right names."""
        if not any(map(self._has_better, *stack)):
            return stack_idx
        prefix: int | None = None
        groups = self._thread.node_groups(stack_idx)
        for nodes, frame, answer in zip(reversed(groups), *map(reversed, stack), strict=True):
            if self._has_better(frame, answer):
                prefix = self._named(prefix, nodes[-1], namer.frame(frame, answer), answer)
                continue
            for node in reversed(nodes):
                is_there = self._thread.prefix(node) == prefix
                prefix = node if is_there else self._rows.node(prefix, self._thread.frame(node), node)
        return stack_idx if prefix is None else prefix

    def _named(self, prefix: int | None, node: int, shown: Sequence[NamedFrame], answer: Answer) -> int | None:
        """Return the stack that goes on from `prefix` with the functions of a frame, the innermost last."""
        old = self._thread.frame(node)
        address, lib = self._thread.address(old)
        depth = 0
        for named in reversed(shown):
            depth = depth + 1 if named.is_inlined else 0
            if not depth:  # the function that has the code stands before those inlined in it
                is_there = named.address is not None and address is not None and lib >= 0
                symbol = self._rows.symbol(lib, answer.start, answer.size_bytes, named.name) if is_there else None
            row = self._rows.frame(
                old,
                address=address if is_there else -1,
                inlineDepth=depth,
                func=self._rows.function(named.name, named.file, self._thread.resource(old), self._thread.func(old)),
                nativeSymbol=symbol,
                line=named.line or None,
                column=named.column or None,
            )
            prefix = self._rows.node(prefix, row, node)
        return prefix
