"""The source functions at one address: joins DIEs and symbols.

    symbols at A        _ZN3CatC1Ev  _ZN3CatC2Ev  _Z4moo_v
    DIEs at A           <Cat::Cat> of a.cc, the same of b.cc (a discarded copy, redirected), <moo_>
    groups of DIEs      {Cat::Cat: 2 DIEs}  {moo_}
    members             {Cat::Cat: C1, C2}  {moo_}

DIEs are grouped into source functions first (`icf.folds.groups`). Then symbols are matched to groups by linkage name,
and to groups without one by what their names say (`icf.folds.attaching`). A symbol without a group is a variant of a
member, or else a member without debug information. Doubt makes more members, never fewer: a superfluous candidate
makes an answer ambiguous, a missing one would make it wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from icf.aliases import (
    is_abstract,
    is_clone_of_shared,
    is_mangled,
    is_of_one_unit,
    is_specialized,
    kin,
    may_be_one_function,
    name_before_link,
    same_function,
)
from icf.columns import I8
from icf.demangle import demangle
from icf.folds.attaching import attach
from icf.folds.body_members import KEPT, UNKNOWN
from icf.folds.groups import Group
from icf.folds.identity import Identities
from icf.folds.member import FoldMember
from icf.folds.named import Named, ReportedFunction, member_of
from icf.folds.specialized import add_specialized, clones_of_units

_NO_ROWS = np.empty(0, np.int8)


def match(
    identities: Identities | None,
    groups: list[Group],
    named: list[Named],
    reported: list[ReportedFunction],
    knows_kept: bool,
    plain: Sequence[FoldMember] = (),
    kept_of_rows: I8 = _NO_ROWS,
    *,
    drops_names: bool,
    of_kept: frozenset[int] = frozenset(),
) -> list[FoldMember]:
    """Return members from groups of DIEs, the symbols at the same body, and functions of other evidence (`reported`).

    `plain` are members that have been found already, see `icf.folds.plain`; `kept_of_rows` is a column of those that
    are rows, which `reported` does not concern.
    `drops_names`: the linker drops symbols of folded functions, so that the symbol of a group may be missing.
    `of_kept`: rows of symbols that only the kept section has, as the linker drops those of others.
    """
    members: list[FoldMember] = []
    nameless: list[Group] = []
    has_symbols = bool(named or plain or len(kept_of_rows))
    rest = _ByKin(named)
    reported_names = _reported_by_kin(reported)
    numbered = _Numbered(groups, rest)
    for group in sorted(groups, key=lambda group: not is_abstract(group.linkage)):  # clones first: fewer names fit them
        assert identities is not None
        mine = [entry for entry in rest.kin_of(group.linkage or group.name) if group.has_symbol(entry.name)]
        mine = _of_linkage(mine, group, identities)
        if not mine and has_symbols and (not group.linkage or is_abstract(group.linkage)):
            nameless.append(group)
            continue
        if not group.external:
            mine = _from_unit(mine, identities.files_of(group.dies), drops_names=drops_names)
            mine = numbered.symbols_of(group, mine, drops_names=drops_names)
        known = [
            each for each in reported_names.get(kin(group.linkage or group.name), ()) if group.has_symbol(each.name)
        ]
        is_lost = drops_names and has_symbols and not mine and group.may_be_clone
        clones = _by_function(mine)
        names = [each.name for each in mine or (known if is_lost else ())]
        if group.linkage and ((names and all(map(is_specialized, names))) or (is_lost and not names)):
            members += clones_of_units(identities, group, mine, known, knows_kept=knows_kept)
        elif len(clones) > 1:  # foo and foo.constprop.0: nothing shows which DIE is whose
            made = [member_of(entries) for entries in clones]
            for member in made:
                member.roots = set(group.roots)
            members += made
        else:
            member = member_of(mine) if mine else _unsymbolized(group, known if is_lost else None)
            member.dies, member.roots, member.linkage = group.dies, group.roots, group.linkage
            if member.local and not is_specialized(member.name):  # symbols of its copies in other units may be dropped
                member.files |= identities.files_of(group.dies)
            member.kept = group.kept if knows_kept else None
            members.append(member)
        rest.remove(mine)
    _add_symbols(members, rest.left())
    members += plain
    specialized = [each for each in reported if is_specialized(each.name)]
    others = [each for each in reported if not is_specialized(each.name)] if specialized else reported
    add_specialized(members, specialized)
    _add_reported(members, others)
    if nameless:
        assert identities is not None
        attach(identities, members, nameless, of_kept, knows_kept=knows_kept)
    if knows_kept:
        _deduce_kept(members, kept_of_rows)
    return members


def _reported_by_kin(reported: list[ReportedFunction]) -> dict[str, list[ReportedFunction]]:
    by_kin: dict[str, list[ReportedFunction]] = {}
    for each in reported:
        by_kin.setdefault(kin(name_before_link(each.name)), []).append(each)
    return by_kin


def _unsymbolized(group: Group, reported: list[ReportedFunction] | None) -> FoldMember:
    """Return the member for DIEs without a symbol; `reported`: what its symbol may be, which the linker dropped."""
    name = group.linkage or group.name
    if reported is not None:
        names = {each.name for each in reported}
        if len(names) != 1:  # the function is known, its symbol is not
            return FoldMember(demangle(name), local=True, nameless=True)
        name = names.pop()
    return FoldMember(name, local=not group.external)


def _by_function(entries: list[Named]) -> list[list[Named]]:
    """Return entries by source function: variants of one constructor stay together."""
    functions: list[list[Named]] = []
    for entry in entries:
        own = next((known for known in functions if same_function(known[0].name, entry.name)), None)
        if own is None or is_specialized(entry.name):
            functions.append([entry])
        else:
            own.append(entry)
    return functions


def _of_linkage(entries: list[Named], group: Group, identities: Identities) -> list[Named]:
    """Return the symbols that can be of a function with this linkage: in C a local one may have a global one's name.

    A function with external linkage has a local symbol where the link has made it local (mold makes all so that a
    program does not export), and no global one is there.
    """
    if is_mangled(group.linkage or group.name):
        return entries
    if not group.external:
        return [entry for entry in entries if entry.local]
    found = [entry for entry in entries if not entry.local] or entries
    return _from_unit(found, identities.files_of(group.dies)) if len(found) > 1 else found


def _from_unit(entries: list[Named], files: frozenset[str], *, drops_names: bool = False) -> list[Named]:
    """Return one of the local symbols of one name: one that stems from the files.

    If none does, it is the first, unless the linker drops symbols: then it was dropped.
    """
    here = [entry for entry in entries if entry.file in files]
    if drops_names and files and not here and all(entry.file for entry in entries):
        return []
    if len(entries) < 2:
        return entries
    return here[:1] if len({entry.name for entry in here}) == 1 else entries[:1]


class _ByKin:
    """Symbols that are not taken yet, by kin."""

    def __init__(self, entries: list[Named]) -> None:
        self._left = dict.fromkeys(entries)
        self._by_kin: dict[str, list[Named]] = {}
        for entry in entries:
            self._by_kin.setdefault(kin(name_before_link(entry.name)), []).append(entry)

    def kin_of(self, name: str) -> list[Named]:
        return [entry for entry in self._by_kin.get(kin(name), ()) if entry in self._left]

    def is_left(self, entry: Named) -> bool:
        return entry in self._left

    def remove(self, entries: list[Named]) -> None:
        for entry in entries:
            del self._left[entry]

    def left(self) -> list[Named]:
        return list(self._left)


class _Numbered:
    """Local functions of several units that link-time optimization put into one object: f, f.7, f.12.

    In DWARF all of them are f, in the order of their numbers.
    """

    def __init__(self, groups: list[Group], symbols: _ByKin) -> None:
        self._all = symbols
        of_name: dict[str, list[Group]] = {}
        for group in groups:
            if group.linkage and not group.external:
                of_name.setdefault(group.linkage, []).append(group)
        self._counts = {name: len(own) for name, own in of_name.items()}
        self._symbols: dict[str, list[Named]] = {}
        self._paired: dict[int, Named] = {}  # by group
        for name, own in of_name.items():
            found = [each for each in symbols.kin_of(name) if each.name == name or _is_numbered(each.name, name)]
            if all(each.name == name for each in found):
                continue
            self._symbols[name] = sorted(found, key=lambda each: (len(each.name), each.name))
            if len(found) == len(own):
                own.sort(key=lambda group: min(group.dies))
                self._paired.update(zip(map(id, own), self._symbols[name], strict=True))

    def symbols_of(self, group: Group, exact: list[Named], *, drops_names: bool) -> list[Named]:
        """Return the symbols, which are not taken, that may be those of a group; `exact` are those of its very name."""
        name = group.linkage
        if name not in self._symbols:
            return exact
        if id(group) in self._paired:
            symbols = [self._paired[id(group)]]
        elif self._counts[name] > 1 and drops_names:
            return exact
        else:
            symbols, self._symbols[name] = self._symbols[name], []  # the first takes all
        return [entry for entry in symbols if self._all.is_left(entry)]


def _is_numbered(symbol: str, linkage: str) -> bool:
    return symbol.startswith(f"{linkage}.") and symbol[len(linkage) + 1 :].isdigit()


def _members_by_kin(members: list[FoldMember]) -> dict[str, list[FoldMember]]:
    by_kin: dict[str, list[FoldMember]] = {}
    for member in members:
        if not member.nameless:
            by_kin.setdefault(kin(member.name), []).append(member)
    return by_kin


def _add_symbols(members: list[FoldMember], entries: list[Named]) -> None:
    """Add symbols without a group: they are variants of members, or members of their own.

    Two local symbols of one name are two functions, also where their units have source files of one name.
    """
    by_kin = _members_by_kin(members)
    for entry in entries:
        if is_specialized(entry.name):
            members.append(member_of([entry]))
            continue
        relatives = by_kin.setdefault(kin(entry.name), [])
        is_shared = is_clone_of_shared(entry.name)
        for member in relatives:
            at_home = is_shared or entry.file in member.files or not (entry.file or member.files)
            is_another = entry.local and not is_shared and bool(member.symbols) and member.is_named(entry.name)
            if at_home and not is_another and same_function(member.name, entry.name):
                member.symbols.append(entry.row)
                member.files |= {entry.file} - {""}
                if entry.name != member.name:
                    member.aliases = sorted({*member.aliases, entry.name})
                break
        else:
            member = member_of([entry])
            members.append(member)
            relatives.append(member)


def _add_reported(members: list[FoldMember], reported: list[ReportedFunction]) -> None:
    """Add functions without symbols: one local name has as many members as evidence names."""
    if not reported:
        return
    by_kin = _members_by_kin(members)
    free = set(map(id, members))  # members that stand for none of `reported` yet
    for name, file in reported:
        relatives = by_kin.setdefault(kin(name), [])
        mine = [member for member in relatives if _is_reported(member, name, file)]
        if len({member.name for member in mine}) > 1:  # clones of one function are functions
            mine = [member for member in mine if member.is_named(name)] or mine
        if not is_clone_of_shared(name) and any(member.is_named(name) for member in mine):
            mine = [member for member in mine if not member.is_named(name) or id(member) in free]
        if mine:
            free.discard(id(mine[0]))
            if not mine[0].is_named(name):
                mine[0].aliases = sorted({*mine[0].aliases, name})
        else:
            is_local = bool(file) or is_of_one_unit(name)
            member = FoldMember(name, local=is_local, files=frozenset({file} - {""}))
            members.append(member)
            relatives.append(member)


def _is_reported(member: FoldMember, name: str, file: str) -> bool:
    """Return whether a member may be the function of that name and file."""
    if file and member.files and file not in member.files:
        return False
    if file and member.symbols and not member.local and not is_mangled(name):
        return False  # a local function of C with the name of a global one
    names = (member.name, *member.aliases)
    if member.symbols and member.local and not any(map(is_clone_of_shared, (name, *names))):
        # a clone may be of another object, whose function has the same name, in a source file of the same name
        return any(same_function(known, name) for known in names)
    return member.is_named(name) or any(may_be_one_function(known, name) for known in names)


def _deduce_kept(members: list[FoldMember], of_rows: I8) -> None:
    """Mark the one member that was kept, of these and of rows; where DWARF does not single it out, mark none."""
    kept = [member for member in members if member.kept]
    kept_count = len(kept) + np.count_nonzero(of_rows == KEPT)
    if not kept_count:
        unsaid = [member for member in members if member.kept is None]
        unsaid_rows = np.flatnonzero(of_rows == UNKNOWN)
        if len(unsaid) + len(unsaid_rows) == 1:
            of_rows[unsaid_rows] = KEPT
            for member in unsaid:
                member.kept = True
    elif kept_count > 1:
        of_rows[of_rows == KEPT] = UNKNOWN
        for member in kept:
            member.kept = None
