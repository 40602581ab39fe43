"""The functions of a linked PE image, and which of them a symbol of an object means.

A name with external linkage means the one member that has it. Which static function of an object is meant depends on
what describes the image: its PDB (`linkpass.pe.pdb_members`) or its DWARF (`linkpass.pe.dwarf_members`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from icf.coff.objectfile import CoffObject
from icf.pdb.functions import PdbBody
from linkpass.pe.inputs import Input

_DEFAULTS_LIMIT = 16  # weak symbols that stand in for another one


class Function(NamedTuple):
    """A member of a body, both by place."""

    body: int
    member: int


_NO_FUNCTIONS: frozenset[Function] = frozenset()


class Statics(Protocol):
    """The static functions of an image, by the objects that define them."""

    @property
    def lists_objects(self) -> bool:
        """Whether all objects of the link are known."""

    def named(self, each: Input, name: str) -> frozenset[Function]:
        """Return the static functions of an object with that linkage name."""

    def all_of(self, each: Input) -> set[Function]:
        """Return all static functions of an object."""

    def may_be_linked(self, each: Input) -> bool:
        """Return whether an object is none that an archive has and the link did not take."""

    def unread(self, inputs: Iterable[tuple[str, str]]) -> list[str]:
        """Return the paths of the objects of the link that are not among `inputs`, which are files and names."""


class Members:
    """All functions of an image, by the names that objects have for them."""

    def __init__(
        self, bodies: list[PdbBody], complete: bool, external: Mapping[str, Iterable[Function]], statics: Statics
    ) -> None:
        self.bodies = bodies
        self.complete = complete  # no function is missing
        self.statics = statics
        self._external = {name: frozenset(found) for name, found in external.items()}
        self._asked: tuple[CoffObject | None, dict[int, frozenset[Function]]] = None, {}  # by symbol of an object

    def meant_by(self, each: Input, symbol: int) -> frozenset[Function]:
        """Return the functions that a symbol of an object may mean; none if it means no function that is known."""
        if self._asked[0] is not each.object:
            self._asked = each.object, {}
        known = self._asked[1]
        if symbol not in known:
            known[symbol] = self._find(each, symbol)
        return known[symbol]

    def _find(self, each: Input, symbol: int) -> frozenset[Function]:
        obj = each.object
        for _ in range(_DEFAULTS_LIMIT):
            name = obj.name(symbol)
            if obj.is_local(symbol):
                return self.statics.named(each, name)
            found = self.external(name)
            symbol = -1 if found else obj.default_of(symbol)
            if symbol < 0:
                return found
        return _NO_FUNCTIONS

    def external(self, name: str) -> frozenset[Function]:
        """Return the functions with that linkage name."""
        return self._external.get(name, _NO_FUNCTIONS)

    def of_body(self, row: int) -> set[Function]:
        """Return all members of a body."""
        return {Function(row, idx) for idx in range(len(self.bodies[row].members))}


def only(found: frozenset[Function]) -> Function | None:
    """Return the function that is meant, if it is one."""
    return next(iter(found)) if len(found) == 1 else None
