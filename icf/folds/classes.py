"""Fold classes: which source functions share each body.

Symbols at one address, DWARF functions at one address and the linker's own report are put together:

    symbols at A        _ZN3CatC1Ev  _ZN3CatC2Ev  _Z4moo_v
    DIEs at A           <Cat::Cat> of a.cc, the same of b.cc (a discarded copy, redirected), <moo_>
    members             {Cat::Cat: C1, C2}  {moo_}

DIEs are *grouped* into source functions first: a function with external linkage is one function however many
units describe it; a local one is one for each DIE it goes back to. Then symbols are matched to groups
by linkage name. A symbol without a group is a variant or alias of a member, or else a member without debug
information. Doubt makes more members, never fewer: a superfluous candidate costs an answer, a missing
one would make a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf._strings import hash_references
from icf.dwarf.constants import DW_LANG_C_names
from icf.dwarf.dies import Identity, resolve
from icf.dwarf.scan import Functions
from icf.dwarf.units import LANGUAGE, NAME, DebugInfo
from icf.elf.image import Image
from icf.folds.aliases import base_name, is_cold_part, same_function
from icf.folds.functions import Bodies
from icf.folds.nameless import assign, source_files
from icf.folds.original import lost_addresses
from icf.folds.report import FoldedSections, function_name

U64 = NDArray[np.uint64]
_STB_LOCAL = 0
_NO_DIE_NAMES = ("_ZT", "_ZGV", "__clang_call_terminate")  # thunks and helpers have no DIE, yet are functions


@dataclass(slots=True)
class FoldMember:
    """One source function at a body, while classes are being made."""

    name: str
    aliases: list[str] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)  # rows of the symbol table
    dies: list[int] = field(default_factory=list)  # concrete DIEs at this body
    roots: set[int] = field(default_factory=set)  # DIEs that declare it
    linkage: str = ""  # DW_AT_linkage_name, empty if DWARF has none
    local: bool = False
    kept: bool | None = None  # None: not known
    files: frozenset[str] = frozenset()  # source files of its local symbols
    nameless: bool = False  # `name` is not a linkage name: the image has none

    @property
    def die(self) -> int:
        """The DIE that stands for this member in the tables, 0 if it has none."""
        return min(self.dies, default=0)


@dataclass(slots=True)
class Fold:
    """A body and the source functions that share it."""

    vaddr: int
    end: int
    members: list[FoldMember]
    fragment: bool = False
    complete: bool = True


@dataclass(slots=True)
class _Group:
    """The DIEs at one body that are one source function."""

    linkage: str
    name: str
    external: bool
    dies: list[int] = field(default_factory=list)
    roots: set[int] = field(default_factory=set)
    kept: bool = False


class _Named(NamedTuple):
    """A symbol at a body."""

    name: str
    row: int
    local: bool
    file: str  # source file of a local symbol, where known


class FoldFinder:
    """Finds the merged bodies of one image."""

    def __init__(
        self,
        image: Image,
        bodies: Bodies,
        debug: DebugInfo | None = None,
        functions: Functions | None = None,
        report: Iterable[FoldedSections] = (),
    ) -> None:
        self.image = image
        self.bodies = bodies
        self.debug = debug
        self.functions = functions
        self._report = list(report)
        self._identity: dict[int, tuple[str, str, bool, int, int]] = {}  # DIE -> linkage, name, external, root, key
        self._lost: frozenset[int] = frozenset()
        self.str_offsets: dict[str, int] = {}  # linkage name -> its offset in .debug_str
        self._reported_names: set[str] = set()

    def find(self) -> list[Fold]:
        """All merged bodies, by address."""
        vaddrs = self._shared_addresses()
        folds = []
        for vaddr in vaddrs.tolist():
            fold = self._fold_at(vaddr)
            if len(fold.members) > 1:
                folds.append(fold)
        return folds

    def member_at(self, vaddr: int) -> FoldMember:
        """The one source function at a body that is not merged."""
        fold = self._fold_at(vaddr)
        return fold.members[0] if fold.members else FoldMember(f"sub_{vaddr:x}")

    # Which addresses have to be looked at

    def _shared_addresses(self) -> U64:
        several_symbols = _repeated(self.bodies.symbol_value)
        for section in self._report:
            for ref in (section.kept, *section.removed):
                self._reported_names.add(function_name(ref.section))
        if self.debug is None or self.functions is None:
            return several_symbols
        several_dies = _repeated(self.bodies.dwarf_low)
        at = np.isin(self.bodies.dwarf_low, np.union1d(several_symbols, several_dies))
        rows = self.bodies.dwarf_rows[at]
        dies = np.unique(self.functions.die[rows])
        identity = resolve(self.debug, dies)
        hashes = np.empty(len(dies), np.uint64)
        d = self.debug
        hash_references(d.info, d.str_, d.line_str, memoryview(identity.linkage_name), memoryview(hashes))
        # One external function, described by several units, is not folded: most shared addresses of gold's
        # output are that. What remains is few enough to be looked at one by one.
        key = np.where(identity.external & (hashes != 0), hashes, identity.root)
        row_key = key[np.searchsorted(dies, self.functions.die[rows])]
        low = self.functions.low[rows]
        distinct = np.unique(np.stack([low, row_key], axis=1), axis=0)
        suspicious = _repeated(distinct[:, 0])
        shared = np.union1d(several_symbols, suspicious)
        self._remember(dies[np.isin(dies, self.functions.die[rows[np.isin(low, shared)]])], dies, identity)
        self._lost = lost_addresses(self.debug, self.image, self.functions, rows[np.isin(low, shared)])
        return shared

    def _remember(self, wanted: U64, dies: U64, identity: Identity) -> None:
        assert self.debug is not None
        string = self.debug.string
        names: dict[int, str] = {0: ""}

        def text(reference: int) -> str:
            known = names.get(reference)
            if known is None:
                known = names[reference] = string(reference).decode("utf-8", "surrogateescape")
            return known

        rows = np.searchsorted(dies, wanted)
        languages = self.debug.units[self.debug.unit_of(wanted), LANGUAGE].tolist()
        for at, language in zip(rows.tolist(), languages, strict=True):
            name = text(int(identity.name[at]))
            reference = int(identity.linkage_name[at])
            linkage = text(reference)
            if reference >> 60 == 2:
                self.str_offsets[linkage] = reference & (1 << 60) - 1
            self._identity[int(dies[at])] = (
                linkage or (name if language in DW_LANG_C_names else ""),
                name,
                bool(identity.external[at]),
                int(identity.root[at]),
                int(identity.decl_line[at]),
            )

    def _identify(self, dies: U64) -> None:
        unknown = np.array([die for die in dies.tolist() if die not in self._identity], np.uint64)
        if len(unknown) and self.debug is not None:
            self._remember(unknown, unknown, resolve(self.debug, unknown))

    # One address

    def _fold_at(self, vaddr: int) -> Fold:
        symbols = self.image.symbols
        named = []
        for row in self.bodies.symbols_at(vaddr).tolist():
            local = bool(symbols.bind[row] == _STB_LOCAL)
            named.append(_Named(symbols.name(row), row, local, symbols.file_name(row) if local else ""))
        groups = self._groups_at(vaddr, {entry.name for entry in named if not entry.local})
        members = self._match(groups, named)
        end = int(self.bodies.end[np.searchsorted(self.bodies.start, vaddr)])
        fragment = bool(named) and all(is_cold_part(entry.name) for entry in named)
        if not named and self.functions is not None:
            parts = self.functions.part[self.bodies.dwarf_at(vaddr)]
            fragment = bool(len(parts)) and bool((parts > 0).all())
        return Fold(vaddr, end, sorted(members, key=lambda m: (m.name, sorted(m.files), m.die)), fragment)

    def _groups_at(self, vaddr: int, global_names: set[str]) -> list[_Group]:
        if self.functions is None:
            return []
        dies = np.unique(self.functions.die[self.bodies.dwarf_at(vaddr)])
        self._identify(dies)
        groups: dict[object, _Group] = {}
        for die in dies.tolist():
            linkage, name, external, root, line = self._identity[die]
            if linkage in global_names or (not linkage and name in global_names):
                external = True
            key: object
            if external and (linkage or name in global_names):
                key = linkage or name
            elif linkage or external:
                key = (linkage, root)
            else:
                key = (name, root, line)
            group = groups.setdefault(key, _Group(linkage, name, external))
            group.dies.append(die)
            group.roots.update((die, root))
            group.kept |= die not in self._lost
        return list(groups.values())

    def _match(self, groups: list[_Group], named: list[_Named]) -> list[FoldMember]:
        """Members from groups of DIEs and the symbols at the same address."""
        knows_kept = bool(self._lost)
        members: list[FoldMember] = []
        nameless: list[_Group] = []
        rest = list(named)
        for group in _unite_variants(groups):
            mine = [entry for entry in rest if _names(group, entry.name)]
            if not mine and not group.linkage and named:
                nameless.append(group)
                continue
            if not group.external and len(mine) > 1:
                mine = self._in_unit(group, mine)
            if len(_distinct(mine)) > 1:  # clones of one function: which DIE is whose cannot be told
                for name, entries in _distinct(mine).items():
                    files = frozenset(e.file for e in entries if e.file)
                    members.append(
                        FoldMember(name, symbols=[e.row for e in entries], local=entries[0].local, files=files)
                    )
            else:
                name = mine[0].name if mine else group.linkage or group.name
                members.append(
                    FoldMember(
                        name,
                        aliases=sorted({e.name for e in mine} - {name}),
                        symbols=[e.row for e in mine],
                        dies=group.dies,
                        roots=group.roots,
                        linkage=group.linkage,
                        local=mine[0].local if mine else not group.external,
                        kept=group.kept if knows_kept else None,
                        files=frozenset(e.file for e in mine if e.file),
                    )
                )
            rest = [entry for entry in rest if entry not in mine]
        for entry in rest:
            self._add_symbol(members, entry, bool(nameless))
        self._attach_nameless(members, nameless, knows_kept)
        if knows_kept:
            _deduce_kept(members)
        return members

    def _add_symbol(self, members: list[FoldMember], entry: _Named, doubtful: bool) -> None:
        name, row, local, file = entry
        for member in members:
            if same_function(member.name, name) and (file in member.files or not (file or member.files)):
                member.symbols.append(row)
                if name != member.name:
                    member.aliases.append(name)
                    member.aliases.sort()
                return
        members.append(FoldMember(name, symbols=[row], local=local, files=frozenset({file} - {""})))

    def _attach_nameless(self, members: list[FoldMember], groups: list[_Group], knows_kept: bool) -> None:
        """Give DIEs without linkage name to the symbols they belong to; what cannot be told stays without."""
        if not groups:
            return
        bare = [member for member in members if not member.dies]
        if len(bare) == 1 and len({group.name for group in groups}) == 1 and not bare[0].local:
            matched = dict.fromkeys(range(len(groups)), 0)  # copies of one function, redirected to the one body
        else:
            files = [(group.name, self._files(group)) for group in groups]
            matched = assign(files, [(member.name, min(member.files, default="")) for member in bare])
        for at, idx in matched.items():
            bare[idx].dies += groups[at].dies
            bare[idx].roots |= groups[at].roots
            if knows_kept:
                bare[idx].kept = bool(bare[idx].kept) or groups[at].kept
        if len(groups) > len(bare) and not matched:
            names = sorted({group.name for group in groups})
            members += [FoldMember(name, local=True, nameless=True) for name in names]

    def _files(self, group: _Group) -> frozenset[str]:
        assert self.debug is not None
        units = self.debug.unit_of(np.array(group.dies, np.uint64))
        return source_files(
            self.debug.string(int(self.debug.units[unit, NAME])).decode("utf-8", "replace") for unit in units
        )

    def _in_unit(self, group: _Group, entries: list[_Named]) -> list[_Named]:
        """Those of several local symbols of one name that stem from the unit of the group."""
        files = self._files(group)
        here = [entry for entry in entries if entry.file in files]
        return here[:1] if here and len({e.name for e in here}) == 1 else entries[:1]


def _names(group: _Group, symbol: str) -> bool:
    """Whether a symbol is one of the group's function."""
    name = group.linkage or group.name
    if symbol == name:
        return True
    base = base_name(symbol)
    return base == name or (bool(group.linkage) and same_function(base, name))


def _distinct(entries: list[_Named]) -> dict[str, list[_Named]]:
    """Entries by source function: variants of one constructor stay together."""
    by_name: dict[str, list[_Named]] = {}
    for entry in entries:
        for known in by_name:
            if same_function(known, entry.name):
                by_name[known].append(entry)
                break
        else:
            by_name[entry.name] = [entry]
    return by_name


def _unite_variants(groups: list[_Group]) -> list[_Group]:
    """clang describes C1 and C2 of a constructor by a DIE each; they are one source function."""
    united: list[_Group] = []
    for group in groups:
        for other in united:
            if group.linkage and group.external and other.external and same_function(group.linkage, other.linkage):
                other.dies += group.dies
                other.roots |= group.roots
                other.kept |= group.kept
                break
        else:
            united.append(group)
    return united


def _deduce_kept(members: list[FoldMember]) -> None:
    """Exactly one member was kept; where DWARF does not say so clearly nothing is claimed."""
    kept = [member for member in members if member.kept]
    if not kept:
        bare = [member for member in members if member.kept is None]
        if len(bare) == 1:
            bare[0].kept = True
    elif len(kept) > 1:
        for member in kept:
            member.kept = None
    if sum(member.kept is True for member in members) == 1:
        for member in members:
            member.kept = member.kept is True


def _repeated(values: U64) -> U64:
    """Values that occur more than once in a sorted column."""
    return np.unique(values[1:][values[1:] == values[:-1]])
