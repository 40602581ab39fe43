"""The members of one merged body, looked up by a callee DIE. A body may have thousands."""

from __future__ import annotations

from functools import cached_property

from icf.aliases import WRAP, kin, same_function
from icf.folds.classes import Fold
from icf.folds.identity import Described
from icf.folds.member_columns import MemberColumns


class FoldIndex:
    """Finds the members of a body that a DIE can mean."""

    def __init__(self, fold: Fold) -> None:
        self._by_root: dict[int, list[int]] = {}
        for idx, root in zip(*(column.tolist() for column in MemberColumns([fold.members]).roots), strict=True):
            self._by_root.setdefault(root, []).append(idx)
        self._names = [(name, idx) for idx, names in enumerate(fold.members.names) for name in names]
        self._wraps = any(name.startswith(WRAP) for name, _ in self._names)

    @cached_property
    def _by_kin(self) -> dict[str, list[tuple[str, int]]]:
        by_kin: dict[str, list[tuple[str, int]]] = {}
        for name, idx in self._names:
            for spelled in {name, name.removeprefix(WRAP)}:
                by_kin.setdefault(kin(spelled), []).append((spelled, idx))
        return by_kin

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
