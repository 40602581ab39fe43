"""The slots of an image's vtables that the loader fills by name: they may hold functions of other modules.

    libshape.so   Shape::draw            program   vtable for Mine: Shape
                       ^                               slot 2   R_X86_64_64 _ZN5Shape4drawEi
                       +------------------------------------+

The tables of the program do not list that slot, because they know no function of the library. The relocation has the
name, also where the function was folded with others; the process has what it is bound to
(`unwind.process.borrowed_vtables`). A slot with a name that the module itself exports counts, too: another module can
define it first.

Rows in a symcache are `ROW`: the address point, how far before it the group begins, the slot, the name of the function
and that of the group, as places in a list of names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

ROW = np.dtype([("vtable", "<u8"), ("before", "<u4"), ("slot", "<u4"), ("name", "<u4"), ("group", "<u4")])
Rows = npt.NDArray[Any]  # of `ROW`, by (vtable, slot)


class BoundVtable(NamedTuple):
    """A vtable with the slots that the loader fills by name; addresses are as linked."""

    vaddr: int  # its address point
    group: int  # where the symbol that holds it begins
    slots: tuple[tuple[int, str], ...]  # number and the function's name, ascending


class BoundSlots:
    """Those of one image."""

    def __init__(self, read: Callable[[], tuple[Rows, Sequence[str]]] | None = None) -> None:
        self._read = read  # called when a vtable pointer is looked up, which few stacks have

    def group_of(self, vptr: int) -> tuple[BoundVtable, ...]:
        """Return the vtables of the group that has an address point, if that one has such slots; else none."""
        own = self._by_vtable.get(vptr)
        return () if own is None else tuple(self._by_group[own.group])

    def names_in(self, slot: int) -> frozenset[str]:
        """Return the names of the functions in a slot of any vtable."""
        rows, names = self._columns
        return frozenset(names[name] for name in rows["name"][rows["slot"] == slot].tolist())

    def symbol_of(self, vptr: int) -> str:
        """Return the name of the group that has an address point."""
        rows, names = self._columns
        own = rows[rows["vtable"] == vptr]
        return names[int(own["group"][0])] if len(own) else ""

    @cached_property
    def _columns(self) -> tuple[Rows, Sequence[str]]:
        return self._read() if self._read is not None else (np.zeros(0, ROW), ())

    @cached_property
    def _by_vtable(self) -> dict[int, BoundVtable]:
        slots: dict[tuple[int, int], list[tuple[int, str]]] = {}
        rows, names = self._columns
        for vtable, before, slot, name, _ in rows.tolist():
            slots.setdefault((vtable, vtable - before), []).append((slot, names[name]))
        return {vtable: BoundVtable(vtable, group, tuple(own)) for (vtable, group), own in slots.items()}

    @cached_property
    def _by_group(self) -> dict[int, list[BoundVtable]]:
        found: dict[int, list[BoundVtable]] = {}
        for vtable in self._by_vtable.values():
            found.setdefault(vtable.group, []).append(vtable)
        return found
