"""Attaches DIEs without a linkage name to members that are symbols without a DIE.

    members         {_ZN12_GLOBAL__N_14workEv}  {_ZN12_GLOBAL__N_14restEv}
    groups of DIEs  {work}  {rest}  {lost}, whose symbol gold dropped
    then            {_ZN12_GLOBAL__N_14workEv: work}  {_ZN12_GLOBAL__N_14restEv: rest}  {lost}

`icf.folds.nameless` tells which DIEs a symbol may have. One that no other symbol can have is the symbol's. No
evidence tells whose the others are. If they are no more than the symbols that lack one, each belongs to a member that
is there, and none is a member of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from icf.folds.groups import Group
from icf.folds.identity import Identities
from icf.folds.member import FoldMember
from icf.folds.nameless import assign

_Choices = dict[int, set[int]]  # DIEs (indexes of groups) that a symbol (an index of members) may have


def attach(
    identities: Identities,
    members: list[FoldMember],
    groups: list[Group],
    of_kept: frozenset[int],
    *,
    knows_kept: bool,
) -> None:
    """Give `groups` to the members they belong to, and add those that may belong to none.

    `of_kept`: rows of symbols that only the kept section has, see `match`.
    """
    bare = [member for member in members if not member.dies]
    kept = _KeptSection(members, bare, of_kept)
    choices = _choices(identities, bare, groups)
    found = kept.certain(_certain(choices, bare, groups))
    for idx, mine in found.items():
        for at in sorted(mine):
            bare[idx].dies = bare[idx].dies + groups[at].dies
            bare[idx].roots |= groups[at].roots
            if knows_kept:
                bare[idx].kept = bool(bare[idx].kept) or groups[at].kept
    matched = set[int]().union(*found.values())
    lacking = {idx: left - matched for idx, left in choices.items() if idx not in found and left - matched}
    wanted = set[int]().union(*lacking.values())
    each_has_a_member = len(wanted) <= kept.room(lacking, found)
    for at, group in enumerate(groups):
        if at in matched or (at in wanted and each_has_a_member):
            continue
        member = FoldMember(group.name, local=True, nameless=True, files=identities.files_of(group.dies))
        if at not in wanted:
            member.dies, member.roots = group.dies, group.roots
            member.kept = group.kept if knows_kept else None
        members.append(member)


def _choices(identities: Identities, bare: list[FoldMember], groups: list[Group]) -> _Choices:
    is_local = [not group.external and identities.tells_linkage(group.dies[0]) for group in groups]
    return assign(
        [(group.name, identities.files_of(group.dies)) for group in groups],
        [(member.name, min(member.files, default="")) for member in bare],
        lambda idx, at: bare[idx].local or not bare[idx].symbols or not is_local[at],
        identities.classes_of(group.dies[0] for group in groups),
    )


def _certain(choices: _Choices, bare: list[FoldMember], groups: list[Group]) -> _Choices:
    """Return the DIEs of those symbols that no other symbol can have."""
    counts = Counter(at for fitting in choices.values() for at in fitting)
    found = {}
    for idx, fitting in choices.items():
        mine = fitting if all(counts[at] == 1 for at in fitting) else set()
        # several units describe one function with external linkage, and gold leads all of them to the one body
        if len(mine) == 1 or (mine and not bare[idx].local and len({groups[at].name for at in mine}) == 1):
            found[idx] = mine
    return found


class _KeptSection:
    """The symbols of the kept section: of one function with a DIE, and of the aliases that gcc made of it, without."""

    def __init__(self, members: list[FoldMember], bare: list[FoldMember], rows: frozenset[int]) -> None:
        self._symbols = {idx for idx, member in enumerate(bare) if not rows.isdisjoint(member.symbols)}
        has_die = any(member.dies and not rows.isdisjoint(member.symbols) for member in members)
        self._room = 0 if has_die else 1

    def certain(self, found: _Choices) -> _Choices:
        """Return what was found without what cannot all be true: more symbols of the section than may have a DIE."""
        if len(self._symbols & found.keys()) <= self._room:
            return found
        return {idx: mine for idx, mine in found.items() if idx not in self._symbols}

    def room(self, lacking: Mapping[int, object], found: _Choices) -> int:
        """Return how many DIEs the symbols that lack one can have."""
        own = self._symbols & lacking.keys()
        room_of_own = self._room if own and not self._symbols & found.keys() else 0
        return len(lacking) - len(own) + room_of_own
