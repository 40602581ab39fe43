"""The members of one merged body, looked up by a callee DIE. A body may have thousands."""

from __future__ import annotations

from icf.aliases import WRAP, kin, same_function
from icf.folds.classes import Fold
from icf.folds.identity import Described


class FoldIndex:
    """Finds the members of a body that a DIE can mean."""

    def __init__(self, fold: Fold) -> None:
        self._by_root: dict[int, list[int]] = {}
        self._by_kin: dict[str, list[tuple[str, int]]] = {}
        self._wraps = False
        for idx, member in enumerate(fold.members):
            for root in member.roots:
                self._by_root.setdefault(root, []).append(idx)
            for name in {member.name, *member.aliases} if not member.nameless else ():
                self._by_kin.setdefault(kin(name), []).append((name, idx))
                if name.startswith(WRAP):
                    self._wraps = True
                    wrapped = name.removeprefix(WRAP)
                    self._by_kin.setdefault(kin(wrapped), []).append((wrapped, idx))

    def members_of(self, die: int, callee: Described) -> list[int]:
        """Return the members that a callee DIE can mean.

        A clone (foo.isra.0) is local to its unit, where a DIE with code describes it. So in a unit that has none
        at this body, a call of foo means foo itself.
        """
        by_root = {*self._by_root.get(die, ()), *self._by_root.get(callee.root, ())}
        if by_root and not self._wraps:
            return sorted(by_root)
        wanted = callee.linkage or callee.name
        named = {
            idx
            for name, idx in self._by_kin.get(kin(wanted), ())
            if name == wanted or (callee.linkage and same_function(callee.linkage, name))
        }
        return sorted(named | by_root)
