"""The functions that a module defines for others: the dynamic symbols to which calls of other modules are bound.

A reference is `g`, or `g@V1` with a version. It means every definition that the loader may bind it to: one of that
version, or one without; a reference that has no version means each (`icf.elf.versions`). If several functions were
folded into one body, its address does not identify the function; the symbol's name does (`Program.nodes_exported`):

    .dynsym of X    g 0x1200, h 0x1200          class at 0x1200: g, h, i (not exported)
    call g@plt                                  means g
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Protocol

from icf.code.imports import marks_of_owner


class Export(NamedTuple):
    """A function that other modules can call by name."""

    name: str
    vaddr: int
    version: str = ""
    is_hidden: bool = False  # only a reference to its very version means it
    is_chosen: bool = False  # the function at `vaddr` chooses the one that is called (STT_GNU_IFUNC)

    def answers(self, version: str) -> bool:
        """Return whether a reference with that version may be bound to it."""
        return not version or version == self.version or not (self.version or self.is_hidden)


class Exports(Protocol):
    """The definitions of one module."""

    def find(self, symbol: str) -> Sequence[Export]:
        """Return the exports that `symbol` or `symbol@version` may be bound to."""

    def replaces(self, name: str) -> bool:
        """Return whether this module defines a function of the runtime, or one of `prefix*`, without being the
        runtime.
        """


class ListedExports:
    """Exports given one by one, which are read on first use: a library has 100,000."""

    def __init__(self, exports: Iterable[Export] = ()) -> None:
        self._exports = exports

    @cached_property
    def _by_name(self) -> dict[str, list[Export]]:
        by_name: dict[str, list[Export]] = {}
        for export in self._exports:
            by_name.setdefault(export.name, []).append(export)
        return by_name

    def __iter__(self) -> Iterator[Export]:
        return chain.from_iterable(self._by_name.values())

    def find(self, symbol: str) -> Sequence[Export]:
        name, _, version = symbol.partition("@")
        return [export for export in self._by_name.get(name, ()) if export.answers(version)]

    def replaces(self, name: str) -> bool:
        return replaces(self._by_name.keys(), name)


def replaces(defined: KeysView[str], name: str) -> bool:
    """Return whether a module that defines some names has a definition of its own of a function of the runtime."""
    is_defined = any(each.startswith(name[:-1]) for each in defined) if name.endswith("*") else name in defined
    return is_defined and defined.isdisjoint(marks_of_owner(name))
