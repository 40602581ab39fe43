"""Clones that gcc has made of a function for certain arguments, one in each unit: each is a member of its own.

    a.cpp    bar(3, n)    _Z3barii.constprop.0, local to a.cpp, calls red()
    b.cpp    bar(7, n)    _Z3barii.constprop.0, local to b.cpp, calls blue()

The linker folds them if red() and blue() are one body. Both have one name, and DIEs of one function with external
linkage; which is whose, the units tell. Clones that differ in nothing but the unit (`.isra.0`) are not meant.
"""

from __future__ import annotations

from icf.aliases import is_specialized
from icf.demangle import demangle
from icf.folds.groups import Group
from icf.folds.identity import Identities
from icf.folds.member import FoldMember
from icf.folds.named import Named, ReportedFunction, member_of


def clones_of_units(
    identities: Identities, group: Group, named: list[Named], reported: list[ReportedFunction], *, knows_kept: bool
) -> list[FoldMember]:
    """Return the clones of one function for certain arguments: each unit has its own.

    `reported` are functions that may be clones of it. The DIEs of a unit are those of its one clone. The symbol of that
    may be dropped (gold), or the address of the DIE may be overwritten (lld).
    """
    dies_of: dict[str, list[int]] = {entry.file: [] for entry in named}
    for die in group.dies:
        dies_of.setdefault(min(identities.files_of([die]), default=""), []).append(die)
    members_of: dict[str, list[FoldMember]] = {}
    for entry in named:
        members_of.setdefault(entry.file, []).append(member_of([entry]))
    names_of: dict[str, set[str]] = {}
    for name, file in reported:
        names_of.setdefault(file, set()).add(name)
    made = []
    for file, dies in dies_of.items():
        own = members_of.get(file, [])
        if not own:
            names = names_of.get(file, set()) | names_of.get("", set())
            name = names.pop() if len(names) == 1 else ""
            lost = FoldMember(name or demangle(group.linkage), local=True, files=frozenset({file} - {""}))
            lost.nameless = not name
            own.append(lost)
        roots = {*dies, *(described.root for described in identities.of(dies))}
        for member in own:
            member.roots, member.linkage = set(roots), group.linkage
        if dies and len(own) == 1:
            own[0].dies = dies
            own[0].kept = not group.kept_dies.isdisjoint(dies) if knows_kept else None
        made += own
    return made


def add_specialized(members: list[FoldMember], reported: list[ReportedFunction]) -> None:
    """Add clones for certain arguments without symbols: as many as evidence names, less those that are members."""
    free: dict[str, dict[str, list[FoldMember]]] = {}  # by name, by file
    for member in members if reported else ():
        for name in filter(is_specialized, member.names):
            free.setdefault(name, {}).setdefault(min(member.files, default=""), []).append(member)
    for name, file in reported:
        by_file = free.get(name, {})
        known = next((each for each in ((file, "") if file else by_file) if by_file.get(each)), None)
        if known is None:
            members.append(FoldMember(name, local=True, files=frozenset({file} - {""})))
            continue
        by_file[known].pop()
        if not by_file[known]:
            del by_file[known]
