"""What was mapped in a process when a sample was taken.

A process has one address space from its start or exec to the next. A fork begins one that has all that the parent's had
then. Mappings are only ever added: a later one lies over earlier ones, as no record says what is unmapped.

    time        10          20              30
    space  ─────A───────────B───────────────C────
    view        └ A         └ A, B          └ A, B, C       what addresses meant then; frames are looked up in it once

Few of all views are ever asked for. The file that an address is in does mostly not change from one to the next, so each
address remembers between which two additions it lies in the same mapping.

Where another file is mapped over a part of one, it has taken its place: then the process goes on as another
`RecordedProcess`, so that the modules of one never overlap.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.columns import U64
from unwind.process.maps import VDSO
from unwind.process.roots import Roots
from unwind.readers.perf_data.changes import Mapped
from unwind.samples.recording import RecordedModule, RecordedProcess

_KEPT_PROCESSES = 64
_LOADED = 8  # the program, its interpreter, the vdso
_KEPT_ADDRESSES = 1 << 20
_PAGE_BITS = 12
NO_ROOTS = Roots({})
FOREVER = 1 << 64


class Found(NamedTuple):
    """A mapping that covers an address from one addition to another; None: there is none."""

    first: int
    last: int
    mapped: Mapped | None


class Space:
    """The address space of a process from one exec to the next."""

    def __init__(self, pid: int, is_whole: bool, parent: Space | None = None, former: Space | None = None) -> None:
        self.pid, self._is_whole, self._former = pid, is_whole, former
        self.roots = NO_ROOTS
        self._parent, self._inherited_count = parent, parent.own_count if parent is not None else 0
        self._times: list[int] = []
        self._own: list[Mapped] = []
        self._all: list[Mapped] | None = None
        self._starts = [0]  # how many of its own there were when another RecordedProcess began
        self._processes: dict[int, RecordedProcess] = {}
        self._replayed: tuple[int, list[RecordedModule]] = (0, [])  # the modules after so many of all mappings
        self._found: dict[int, Found] = {}  # by page

    @property
    def own_count(self) -> int:
        return len(self._own)

    @property
    def since(self) -> int:
        """When its first mapping was added; 0 if that was before the recording."""
        return self._times[0] if self._times else 0

    def add(self, time: int, mapped: Mapped) -> None:
        """Add a mapping, which is not older than the others; before anything is asked."""
        self._times.append(time)
        self._own.append(mapped)

    def state_at(self, time: int) -> tuple[int, int, int]:
        """Return how many mappings there were, since when, and until when."""
        number = bisect_right(self._times, time)
        since = self._times[number - 1] if number else 0
        until = self._times[number] if number < len(self._times) else FOREVER
        return number, since, until

    def process_of(self, number: int) -> RecordedProcess:
        """Return the process as it was with so many mappings of its own."""
        if self._all is None:
            self._begin()
        assert self._all is not None
        at = bisect_right(self._starts, number)
        process = self._processes.get(at)
        if process is None:
            last = self._starts[at] - 1 if at < len(self._starts) else len(self._own)
            done, modules = self._replayed
            end = len(self._all) - len(self._own) + last
            if done > end:
                done, modules = 0, []
            for mapped in self._all[done:end]:
                _place(mapped, modules)
            self._replayed = end, modules
            if len(self._processes) >= _KEPT_PROCESSES:
                self._processes.clear()
            process = self._processes[at] = RecordedProcess(
                self.pid, list(modules), self.roots.of(self.pid), self._is_whole
            )
        return process

    def find(self, address: int, number: int) -> Mapped | None:
        """Return what was mapped at an address, with so many mappings of its own.

        While the kernel still loads a program, the one that called exec is the innermost.
        """
        mapped = self._find(address, number)
        if mapped is None and self._former is not None and number <= self._loaded_count:
            return self._former._find(address, self._former.own_count)
        return mapped

    @cached_property
    def _loaded_count(self) -> int:
        """How many mappings of its own there were when the kernel had mapped the last it maps by itself, the vdso."""
        return next((number for number, mapped in enumerate(self._own[:_LOADED], 1) if mapped.path == VDSO), 0)

    def _find(self, address: int, number: int) -> Mapped | None:
        if self._all is None:
            self._begin()
        assert self._all is not None
        known = self._found.get(address >> self._shift)
        if known is not None and known.first <= number < known.last:
            return known.mapped
        added = len(self._all) - len(self._own)
        starts, ends = self._bounds
        covering = np.flatnonzero((starts <= np.uint64(address)) & (np.uint64(address) < ends))
        at = int(np.searchsorted(covering, added + number))
        first = max(int(covering[at - 1]) + 1 - added, 0) if at else 0
        last = int(covering[at]) + 1 - added if at < len(covering) else len(self._own) + 1
        found = self._all[int(covering[at - 1])] if at else None
        if len(self._found) >= _KEPT_ADDRESSES:
            self._found.clear()
        self._found[address >> self._shift] = Found(first, last, found)
        return found

    @cached_property
    def _bounds(self) -> tuple[U64, U64]:
        """Where all mappings start and end."""
        mappings = self._all or ()
        starts = np.array([mapped.start for mapped in mappings], np.uint64)
        return starts, np.array([mapped.end for mapped in mappings], np.uint64)

    @cached_property
    def _shift(self) -> int:
        """By how many bits addresses may differ that are always in the same mapping: mappings are whole pages."""
        starts, ends = self._bounds
        bits = int(np.bitwise_or.reduce(starts | ends)) if len(starts) else 0
        return 0 if bits & (1 << _PAGE_BITS) - 1 else _PAGE_BITS

    def _begin(self) -> None:
        """Take what the parents had, and find where one file takes the place of another."""
        parts, space = [self._own], self
        while space._parent is not None:
            count, space = space._inherited_count, space._parent
            if space._all is not None:
                parts.append(space._all[: len(space._all) - len(space._own) + count])
                break
            parts.append(space._own[:count])
        self._all = [mapped for part in reversed(parts) for mapped in part]
        added = len(self._all) - len(self._own)
        modules: list[RecordedModule] = []
        for at, mapped in enumerate(self._all):
            self._all[at], is_instead = _place(mapped, modules)
            if is_instead and at >= added:
                self._starts.append(at + 1 - added)


def _place(mapped: Mapped, modules: list[RecordedModule]) -> tuple[Mapped, bool]:
    """Add what is mapped to the modules, which ascend; return it, and whether another module had to go for it.

    A part of a file that is mapped again at the same place, with other rights, belongs to the module that is there.
    """
    module = mapped.module
    if module is None:
        return mapped, False
    first = bisect_right(modules, module.start, key=lambda each: each.end)
    last = bisect_left(modules, module.end, key=lambda each: each.start)
    for there in modules[first:last]:
        is_same_file = (there.path, there.build_id) == (module.path, module.build_id)
        is_same_place = there.start - there.offset == module.start - module.offset
        if is_same_file and is_same_place and there.start <= module.start and module.end <= there.end:
            return mapped._replace(module=there), False
    modules[first:last] = [module]
    return mapped, first < last
