"""Aliases, as the objects show them: symbols at one place of one section are one function.

In the image an alias (attribute `alias`) looks like a folded function: two symbols at one address. A fold
that consists of one function and its aliases is none.
"""

from __future__ import annotations

from icf.folds.members import FoldMember
from linkpass.linked import Linked
from linkpass.objects import Definition, LinkObjects, definitions_of

_Home = tuple[str, int, int]  # object, section, offset


def join_aliases(linked: Linked, objects: LinkObjects) -> None:
    """Unite members of merged bodies that are one function in the objects."""
    suspects = [fold for fold in linked.folds.values() if any(not member.dies for member in fold.members)]
    found = objects.define({name for fold in suspects for member in fold.members for name in _names(member)})
    changed = False
    for fold in suspects:
        members: list[FoldMember] = []
        homes: dict[_Home, FoldMember] = {}
        for member in sorted(fold.members, key=lambda member: not member.dies):
            mine = _homes(linked, found, fold.vaddr, member)
            other = next((homes[home] for home in mine if home in homes), None)
            if other is None or (other.dies and member.dies):
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


def _names(member: FoldMember) -> list[str]:
    return [] if member.nameless else [member.name, *member.aliases]


def _homes(linked: Linked, found: dict[str, list[Definition]], vaddr: int, member: FoldMember) -> list[_Home]:
    definitions = definitions_of(linked.image, found, vaddr, _names(member), member.files)
    return [(known.object_file.name, known.section, known.offset) for known in definitions]
