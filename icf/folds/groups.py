"""The DIEs at one address, grouped into source functions.

A function with external linkage is one function however many units describe it; a local one is one for each
declaration. In C a local function may have the name of a global one of another unit:

    a.c  void init()           DIE, external           symbol init, global
    b.c  static void init()    DIE, another root       symbol init, local, of the file b.c

clang -g1 does not tell the linkage: then a global symbol of that name does, unless several declarations have it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from icf.aliases import base_name, is_abstract, is_clone, is_mangled, kin, same_function
from icf.folds.identity import Described, Identities


@dataclass(slots=True)
class Group:
    """The DIEs at one body that are one source function."""

    linkage: str
    name: str
    external: bool
    dies: list[int] = field(default_factory=list)
    roots: set[int] = field(default_factory=set)
    kept_dies: set[int] = field(default_factory=set)  # whose address stands in the image as it was linked
    from_abstract: bool = False

    @property
    def kept(self) -> bool:
        """Whether the code at the body is this function's."""
        return bool(self.kept_dies)

    @property
    def may_be_clone(self) -> bool:
        """Return whether its symbol may be foo.isra.0 where DWARF has foo: gcc makes clones, clang does not.

        gcc writes no linkage name for local functions, so a local one with a linkage name is clang's.
        """
        return self.from_abstract and (self.external or not self.linkage.startswith("_Z"))

    def has_symbol(self, symbol: str) -> bool:
        """Return whether a symbol is one of this function."""
        name = self.linkage or self.name
        base = base_name(symbol)
        if name in (symbol, base):
            return True
        return bool(self.linkage) and same_function(base, name) and is_clone(symbol) == is_abstract(name)


def group_dies(identities: Identities, dies: list[int], lost: frozenset[int], global_names: set[str]) -> list[Group]:
    """Group the DIEs at one body; `lost` are those whose address was a tombstone."""
    groups: dict[tuple[object, ...], Group] = {}
    known = identities.of(dies)
    shared = _shared_names(known)
    for die, described in zip(dies, known, strict=True):
        linkage, name, external, root, line, from_abstract = described
        if not external and (linkage or name) in global_names:
            is_unique = is_mangled(linkage)  # no local function has such a name
            external = is_unique or ((linkage or name) not in shared and not identities.tells_linkage(die))
        if external and (linkage or name in global_names):
            key: tuple[object, ...] = (linkage or name,)
        elif linkage:
            key = (linkage, root)
        else:
            key = (name, root, line)
        group = groups.setdefault(key, Group(linkage, name, external))
        group.dies.append(die)
        group.roots.update((die, root))
        if die not in lost:
            group.kept_dies.add(die)
        group.from_abstract |= from_abstract
    return _unite_variants(list(groups.values()))


def _shared_names(known: list[Described]) -> set[str]:
    """Return the names of DIEs that several declarations have."""
    roots: dict[str, int] = {}
    return {
        each.linkage or each.name
        for each in known
        if roots.setdefault(each.linkage or each.name, each.root) != each.root
    }


def _unite_variants(groups: list[Group]) -> list[Group]:
    """Join what clang describes by two DIEs: C1 and C2 of one constructor are one source function."""
    united: list[Group] = []
    by_kin: dict[str, list[Group]] = {}
    for group in groups:
        relatives = by_kin.setdefault(kin(group.linkage), []) if group.linkage and group.external else []
        for other in relatives:
            if _same_code(group.linkage, other.linkage):
                other.dies += group.dies
                other.roots |= group.roots
                other.kept_dies |= group.kept_dies
                break
        else:
            united.append(group)
            relatives.append(group)
    return united


def _same_code(linkage: str, other: str) -> bool:
    return same_function(linkage, other) and is_abstract(linkage) == is_abstract(other)
