"""Whether a callee that DWARF names can be the function at an address.

The question comes up where a branch is not known to belong to the call site, so the answer is cautious: a callee that
cannot be ruled out is possible.

    at the address           possible if
    merged body              the callee is a member
    body of one function     same DIE, same declaration, or a name in common; nameless code may be anything local
    PLT stub, GOT slot       it is the symbol that is imported
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from icf.aliases import base_name, same_function
from icf.folds.fold_index import FoldIndex
from icf.folds.identity import Described
from icf.folds.member import FoldMember
from icf.sets import difference
from linkpass.linked import Linked, Place

_BUILTIN = "__builtin_"  # gcc's declarations: __builtin_memcpy is memcpy


class Callees:
    """Callees by their DIE."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked
        self._described: dict[int, Described] = {}
        self._possible: dict[tuple[int, int], bool] = {}
        self._members: dict[tuple[int, int], frozenset[int]] = {}
        self._indexes: dict[int, FoldIndex] = {}

    def learn(self, origins: Iterable[int], targets: Iterable[int]) -> None:
        """Read the names of all these: together this is much cheaper."""
        identities = self._linked.finder.identities
        assert identities is not None
        known = sorted(set(origins))
        self._described.update(zip(known, identities.of(known), strict=True))
        self._linked.finder.prepare(difference(np.array(list(targets), np.uint64), self._linked.vaddrs))

    def targets(self, origin: int, targets: frozenset[int], slots: frozenset[int]) -> set[int]:
        """Return the targets, and the words that hold one, by which code can name a callee."""
        found = {target for target in targets if self._is_possible(origin, target)}
        return found | {slot for slot in slots if self._is_slot_of(self._described[origin], slot)}

    def members(self, target: int, origin: int) -> frozenset[int]:
        """Return the members of a merged body that a callee can mean."""
        key = (target, origin)
        if key not in self._members:
            if target not in self._indexes:
                self._indexes[target] = FoldIndex(self._linked.folds[target])
            members = self._indexes[target].members_of(origin, self._described[origin])
            self._members[key] = frozenset(members)
        return self._members[key]

    def _is_possible(self, origin: int, target: int) -> bool:
        key = (origin, target)
        if key not in self._possible:
            callee = self._described[origin]
            if target in self._linked.folds:
                fold = self._linked.folds[target]
                self._possible[key] = bool(self.members(target, origin)) or not (fold.complete or callee.external)
            elif target in self._linked.image.plt_stubs:
                self._possible[key] = _is_symbol(callee, self._linked.image.plt_stubs[target])
            else:
                self._possible[key] = self._is_body_of(origin, callee, target)
        return self._possible[key]

    def _is_body_of(self, origin: int, callee: Described, target: int) -> bool:
        if target not in self._starts:
            return False  # chance bytes, or code without any name
        member = self._linked.member(Place(target, 0))
        if origin in member.roots or callee.root in member.roots:
            return True
        names = _names(member)
        return any(_is_symbol(callee, name) for name in names) or (not names and not callee.external)

    def _is_slot_of(self, callee: Described, slot: int) -> bool:
        image = self._linked.image
        if slot in image.got_imports:
            return _is_symbol(callee, image.got_imports[slot])
        return any(low <= slot < high for low, high in self._got)

    @cached_property
    def _starts(self) -> frozenset[int]:
        return frozenset(self._linked.bodies.start.tolist())

    @cached_property
    def _got(self) -> list[tuple[int, int]]:
        sections = [section for section in self._linked.image.sections if section.name.startswith(".got")]
        return [(section.vaddr, section.vaddr + section.size_bytes) for section in sections]


def _names(member: FoldMember) -> set[str]:
    names = {member.name, member.linkage, *member.aliases} - {""}
    return set() if not member.symbols and not member.dies else names


def _is_symbol(callee: Described, symbol: str) -> bool:
    """Return whether a symbol may be that of the callee, or of a clone or variant of it."""
    base = base_name(symbol.partition("@")[0])
    if base in (callee.linkage, callee.name, callee.name.removeprefix(_BUILTIN)):
        return True
    return bool(callee.linkage) and same_function(base, callee.linkage)
