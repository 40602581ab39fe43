"""Aliases, as the objects show them: symbols at one place of one section are one function.

In the image an alias (attribute `alias`) looks like a folded function: two symbols at one address. A fold
that consists of one function and its aliases is none.
"""

from __future__ import annotations

from icf.folds.members import FoldMember
from linkpass.linked import Linked
from linkpass.objects.functions import LinkObjects, wanted_member

_Home = tuple[int, int, int]  # object, section, offset


def join_aliases(linked: Linked, objects: LinkObjects) -> None:
    """Unite members of merged bodies that are one function in the objects."""
    suspects = [fold for fold in linked.folds.values() if any(not member.dies for member in fold.members)]
    wanted = [wanted_member(fold.vaddr, member) for fold in suspects for member in fold.members]
    homes_of = iter(_homes(objects, functions) for functions in objects.definitions(linked.image, wanted))
    changed = False
    for fold in suspects:
        members: list[FoldMember] = []
        homes: dict[_Home, FoldMember] = {}
        found = [(member, next(homes_of)) for member in fold.members]
        for member, mine in sorted(found, key=lambda pair: not pair[0].dies):
            other = next((homes[home] for home in mine if home in homes), None)
            if other is None or other.name == member.name or (other.dies and member.dies):
                members.append(member)
                homes.update(dict.fromkeys(mine, member))
            else:
                other.aliases = sorted({*other.aliases, member.name, *member.aliases} - {other.name})
                other.symbols = other.symbols + member.symbols
        if len(members) < len(fold.members):
            fold.members = sorted(members, key=lambda member: (member.name, sorted(member.files), member.die))
            changed = True
    if changed:
        linked.index()


def _homes(objects: LinkObjects, functions: list[int]) -> list[_Home]:
    known = objects.functions
    return [(int(known.object_idx[f]), int(known.section[f]), int(known.offset[f])) for f in functions]
