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
from icf.folds.nameless import Kind, assign, count_dies

_Choices = dict[int, set[int]]  # kinds of DIEs (see `_Kinds`) that a symbol (an index of members) may have


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
    kinds = _Kinds(identities, groups)
    choices = assign(
        kinds.known,
        [(member.name, min(member.files, default="")) for member in bare],
        lambda idx, at: bare[idx].local or not bare[idx].symbols or not kinds.is_local[at],
    )
    found = kept.certain(_certain(choices, bare, kinds.known))
    for idx, mine in found.items():
        for group in kinds.groups_of(mine):
            bare[idx].dies = bare[idx].dies + group.dies
            bare[idx].roots |= group.roots
            if knows_kept:
                bare[idx].kept = bool(bare[idx].kept) or group.kept
    matched = set[int]().union(*found.values())
    lacking = {idx: left - matched for idx, left in choices.items() if idx not in found and left - matched}
    wanted = set[int]().union(*lacking.values())
    each_has_a_member = count_dies(kinds.known, wanted) <= kept.room(lacking, found)
    for group, at in zip(groups, kinds.of_group, strict=True):
        if at in matched or (at in wanted and each_has_a_member):
            continue
        member = FoldMember(group.name, local=True, nameless=True, files=identities.files_of(group.dies))
        if at not in wanted:
            member.dies, member.roots = group.dies, group.roots
            member.kept = group.kept if knows_kept else None
        members.append(member)


class _Kinds:
    """The groups of DIEs, by what may tell them apart: of thousands of DIEs few kinds remain."""

    def __init__(self, identities: Identities, groups: list[Group]) -> None:
        classes = identities.classes_of(group.dies[0] for group in groups)
        files = [identities.files_of(group.dies) for group in groups]
        local = [not group.external and identities.tells_linkage(group.dies[0]) for group in groups]
        keys = list(zip((group.name for group in groups), files, classes, local, strict=True))
        numbers = {key: at for at, key in enumerate(dict.fromkeys(keys))}
        self.of_group = [numbers[key] for key in keys]
        self._groups: list[list[Group]] = [[] for _ in numbers]
        for group, at in zip(groups, self.of_group, strict=True):
            self._groups[at].append(group)
        self.known = [Kind(*key[:3], len(own)) for key, own in zip(numbers, self._groups, strict=True)]
        self.is_local = [key[3] for key in numbers]

    def groups_of(self, chosen: set[int]) -> list[Group]:
        """Return the groups of some kinds."""
        return [group for at in sorted(chosen) for group in self._groups[at]]


def _certain(choices: _Choices, bare: list[FoldMember], kinds: list[Kind]) -> _Choices:
    """Return the DIEs of those symbols that no other symbol can have."""
    counts = Counter(at for fitting in choices.values() for at in fitting)
    found = {}
    for idx, fitting in choices.items():
        mine = fitting if all(counts[at] == 1 for at in fitting) else set()
        # several units describe one function with external linkage, and gold leads all of them to the one body
        is_one = count_dies(kinds, mine) == 1 or (not bare[idx].local and len({kinds[at].name for at in mine}) == 1)
        if is_one:
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
