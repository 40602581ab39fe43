"""Which function of the debug information has the inline tree and the lines of each member.

Any number of functions may be described at one address: copies that the linker discarded come to the kept one's
address with gold and bfd, and folded functions come to the body. So the name decides. It is the DIE that the tables
name; else the first at this address whose linkage name is of one kin with the member's (`foo` and `foo.cold`, C1 and
C4); else, of a body with one member only, the first that has no linkage name to contradict it. A member never uses
another member's inline tree or line table. If the linker tombstoned its DIE, the member has no tree of its own
(`lost`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from icf.aliases import base_name, is_mangled, kin, name_before_link, same_function
from icf.columns import I64, U32, U64, Mask
from icf.dwarf.columns import LANGUAGE
from icf.dwarf.constants import DW_LANG_C_names
from icf.dwarf.dies import resolve
from icf.dwarf.inlines import InlineScan
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL
from icf.model import FoldClass, Member, MemberFlag
from icf.sets import rows_of_runs
from icf.strings import hash_names
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.clones import declared_apart
from unwind.symcache.builder.losing import Losing
from unwind.symcache.builder.names import Names

_LOCAL, _SYNTHETIC = int(MemberFlag.LOCAL), int(MemberFlag.SYNTHETIC)  # numbers are tested faster than enums
ANOTHERS = -2  # in `Claims.function`: what describes the body is not the member's, nor are lines there
_HIGHEST = np.uint64(0xFFFFFFFFFFFFFFFE)  # addresses from here, or up to 1, are tombstones


class Claims(NamedTuple):
    """One row for each member, by body, then as the body has them."""

    body: I64
    is_merged: Mask  # the body has more members
    name: U64  # references, as `Names` has them
    flags: U32
    aliases: dict[int, list[int]]  # references of names, by row
    function: I64  # row in the scan, -1 if it has none, or ANOTHERS
    lost: I64  # row of the member's description if its address is tombstoned, else -1
    lost_tables: Mapping[int, frozenset[int]] = MappingProxyType({})  # by row: offsets of line tables, see `Losing`


class _Functions:
    """Functions of the scan by address, and their names."""

    def __init__(self, debug: DebugInfo, scan: InlineScan) -> None:
        ranges = scan.function_ranges
        order = np.lexsort((ranges.owner, ranges.low))
        self.low, self.high, self.owner = ranges.low[order], ranges.high[order], ranges.owner[order]
        self.die = scan.functions.die
        self._debug, self._unit = debug, scan.functions.unit

    def claims_at(self, starts: U64) -> tuple[I64, I64, Mask]:
        """Return rows of `starts`, functions: all that are described at each address, else the one around it.

        The third column says which are at the very address.
        """
        if not len(self.low):
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
        first = np.searchsorted(self.low, starts, side="left")
        last = np.searchsorted(self.low, starts, side="right")
        around = np.searchsorted(self.low, self.low[np.maximum(last - 1, 0)], side="left")
        is_within = (first == last) & (last > 0) & (self.high[around] > starts)
        first, last = np.where(is_within, around, first), np.where(is_within, around + 1, last)
        rows, at = rows_of_runs(first, last - first)
        return rows, self.owner[at], ~is_within[rows]

    def names(self, functions: I64) -> U64:
        """Return references of the linkage names, where there are such: in C the name is the linkage name."""
        distinct, back = np.unique(functions, return_inverse=True)
        identity = resolve(self._debug, self.die[distinct])
        language = self._debug.units[self._unit[distinct], LANGUAGE]
        is_linkage = np.isin(language, np.array(sorted(DW_LANG_C_names), np.uint64))
        name = np.where(is_linkage, identity.name, np.uint64(0))
        return np.where(identity.linkage_name != 0, identity.linkage_name, name)[back.reshape(-1)]

    def may_be_of(self, functions: I64, symbols: list[tuple[str, ...]]) -> Mask:
        """Return which functions without a linkage name have the name of one of these symbols, or its last part.

        C++ has none for `extern "C"`, and clang has none at -g1.
        """
        identity = resolve(self._debug, self.die[functions])
        rows = zip(self.texts(identity.name), (identity.linkage_name == 0).tolist(), symbols, strict=True)
        return np.array([is_bare and _is_last_part(name, known) for name, is_bare, known in rows], np.bool_)

    def are_clones(self, bodies: I64, functions: I64) -> Mask:
        """Return which functions, each described at the body in its row, a unit describes there more than once.

        gcc has made clones of it for certain arguments, and others may be inlined in each.
        """
        found = np.zeros(len(bodies), np.bool_)
        rows = np.flatnonzero(np.bincount(bodies)[bodies] > 1)
        identity = resolve(self._debug, self.die[functions[rows]])
        rows, root = rows[identity.from_abstract], identity.root[identity.from_abstract].astype(np.int64)
        key = np.stack([bodies[rows], self._unit[functions[rows]].astype(np.int64), root], axis=1)
        _, at, counts = np.unique(key, axis=0, return_inverse=True, return_counts=True)
        found[rows] = counts[at.reshape(-1)] > 1
        return found

    def of_dies(self, dies: U64) -> I64:
        """Return the functions that the DIEs at these offsets describe, -1 for none."""
        if not len(self.die):
            return np.full(len(dies), -1, np.int64)
        order = np.argsort(self.die, kind="stable")
        at = order[np.minimum(np.searchsorted(self.die, dies, sorter=order), len(order) - 1)]
        return np.where((dies != 0) & (self.die[at] == dies), at, -1)

    def lost_by_name(self, names: list[str]) -> I64:
        """Return, for each linkage name, the first function of that name without an address; -1 for none."""
        rows = self.lost()
        by_hash = dict(zip(self.lost_names[::-1].tolist(), rows[::-1].tolist(), strict=True))
        return np.array([by_hash.get(value, -1) for value in hash_names(names).tolist()], np.int64)

    def lost(self) -> I64:
        """Return the functions without an address."""
        return np.unique(self.owner[(self.low <= 1) | (self.low >= _HIGHEST)])

    @cached_property
    def lost_names(self) -> U64:
        """The hashes of the linkage names of those."""
        return self._debug.string_hashes(self.names(self.lost()))

    def split_externals(self) -> dict[str, int]:
        """Return the functions with external linkage that other files describe (.dwo), by linkage name."""
        rows = np.flatnonzero(self.die >= np.uint64(len(self._debug.info)))
        identity = resolve(self._debug, self.die[rows])
        references = np.where(identity.linkage_name != 0, identity.linkage_name, identity.name)
        found: dict[str, int] = {}
        texts = self.texts(references[identity.external])
        for row, text in zip(rows[identity.external].tolist(), texts, strict=True):
            found.setdefault(text, row)
        return found

    @property
    def are_split(self) -> bool:
        """Whether other files describe functions."""
        return len(self._debug.more) > 0

    def texts(self, references: U64) -> list[str]:
        return [text.decode("utf-8", "surrogateescape") for text in self._debug.strings(references)]

    def kin_hashes(self, references: U64) -> U64:
        return self._debug.string_hashes(references, of_kin=True)


def find_claims(image: Image, debug: DebugInfo | None, scan: InlineScan | None, bodies: Bodies, names: Names) -> Claims:
    """Return the members of all bodies."""
    folds = [(row, bodies.folds[row]) for row in sorted(bodies.folds)]
    body: list[int] = []
    flags: list[int] = []
    text: list[int] = []
    aliases: dict[int, list[int]] = {}
    for row, fold in folds:
        for member in fold.members:
            if member.aliases:
                aliases[len(body)] = [names.of_text(alias) for alias in member.aliases]
            body.append(row)
            flags.append(int(member.flags))
            text.append(names.of_text(member.name))
    only = np.flatnonzero(bodies.symbol >= 0)
    unnamed = np.flatnonzero(bodies.function >= 0)
    is_local = image.symbols.bind[bodies.symbol[only]] == STB_LOCAL
    all_bodies = np.concatenate([np.array(body, np.int64), only, unnamed])
    function, lost = np.full(len(all_bodies), -1, np.int64), np.full(len(all_bodies), -1, np.int64)
    unnamed_names = np.zeros(len(unnamed), np.uint64)
    lost_tables: dict[int, frozenset[int]] = {}
    if scan is not None and debug is not None:
        functions, losing = _Functions(debug, scan), Losing(image, debug, scan)
        of_members, of_symbols = function[: len(body)], function[len(body) : len(body) + len(only)]
        _claim_symbols(functions, image, bodies, only, of_symbols, losing)
        _claim_folds(functions, folds, of_members, losing, are_aliases=not image.linker.folds_functions)
        is_synthetic = (np.array(flags, np.uint32) & _SYNTHETIC) != 0
        dies = np.array([member.die for _, fold in folds for member in fold.members], np.uint64)
        described = functions.of_dies(np.where(is_synthetic, np.uint64(0), dies))
        _claim_split(functions, folds, described)
        _claim_lost(functions, folds, of_members, described)
        lost[: len(body)] = np.where(of_members < 0, described, -1)
        apart = _members_declared_apart(debug, functions, folds)
        of_members[apart], lost[apart] = ANOTHERS, -1
        of_symbols[_symbols_declared_apart(debug, functions, image, bodies, only)] = ANOTHERS
        if image.linker.overwrites_addresses:
            bare = np.flatnonzero(of_symbols == -1)
            hashes = image.symbols.hashes(bodies.symbol[only[bare]])
            found = losing.tables(hashes, functions.lost_names, functions.lost())
            lost_tables = {len(body) + int(bare[row]): offsets for row, offsets in found.items()}
        function[len(body) + len(only) :] = scan.function_ranges.owner[bodies.function[unnamed]]
        owner = scan.function_ranges.owner[bodies.function[unnamed]]
        unnamed_names = names.of_functions(resolve(debug, scan.functions.die[owner]))
    name = np.concatenate([np.array(text, np.uint64), names.of_symbols(bodies.symbol[only]), unnamed_names])
    flag = np.zeros(len(all_bodies), np.uint32)
    flag[: len(flags)] = flags
    flag[len(flags) : len(flags) + len(only)] = np.where(is_local, _LOCAL, 0)
    order = np.argsort(all_bodies, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    all_bodies = all_bodies[order]
    counts = np.bincount(all_bodies, minlength=len(bodies.start))
    return Claims(
        all_bodies, counts[all_bodies] > 1, name[order], flag[order],
        {int(place[row]): found for row, found in aliases.items()}, function[order],
        lost[order], {int(place[row]): offsets for row, offsets in lost_tables.items()},
    )  # fmt: skip


def _members_declared_apart(debug: DebugInfo, functions: _Functions, folds: list[tuple[int, FoldClass]]) -> I64:
    """Return the members of fold classes that are clones of a function with several lines (`declared_apart`)."""
    names = [member.name for _, fold in folds for member in fold.members]
    starts = np.array([fold.vaddr for _, fold in folds for _ in fold.members], np.uint64)
    return declared_apart(debug, functions, names, starts, with_lost=True)


def _symbols_declared_apart(debug: DebugInfo, functions: _Functions, image: Image, bodies: Bodies, rows: I64) -> I64:
    """Return the same of the bodies that have one symbol."""
    dotted = np.flatnonzero(image.symbols.holds(b".", bodies.symbol[rows]))  # as clones are
    names = image.symbols.names(bodies.symbol[rows[dotted]])
    return dotted[declared_apart(debug, functions, names, bodies.start[rows[dotted]], with_lost=False)]


def _claim_symbols(
    functions: _Functions, image: Image, bodies: Bodies, rows: I64, function: I64, losing: Losing
) -> None:
    """Fill in the functions of bodies that have one symbol."""
    symbols = image.symbols
    claim, found, is_exact = functions.claims_at(bodies.start[rows])
    references = functions.names(found)
    kin = symbols.hashes(bodies.symbol[rows], of_kin=True)
    rank = np.where(functions.kin_hashes(references) == kin[claim], 0, np.where(references == 0, 1, 2))
    others = np.flatnonzero((rank > 0) & is_exact)
    others = others[losing.of(found[others])]
    names = symbols.names(bodies.symbol[rows[claim[others]]])
    own = functions.may_be_of(found[others], [(name,) for name in names])
    rank[others[~own]] = 2
    function[claim[others[~own]]] = ANOTHERS
    order = np.lexsort((found, rank, claim))
    order = order[rank[order] < 2]
    claimed, best = np.unique(claim[order], return_index=True)
    function[claimed] = found[order[best]]
    exact = order[is_exact[order]]
    function[claim[exact][functions.are_clones(claim[exact], found[exact])]] = ANOTHERS


def _claim_folds(
    functions: _Functions,
    folds: list[tuple[int, FoldClass]],
    function: I64,
    losing: Losing | None,
    *,
    are_aliases: bool,
) -> None:
    """Fill in the functions of the members of fold classes, and of bodies that have several symbols.

    Where the linker does not fold, `are_aliases`, a body has the lines of the one function described there, whatever
    its name.
    """
    fold_idx, found, is_exact = functions.claims_at(np.array([fold.vaddr for _, fold in folds], np.uint64))
    here = [_Described() for _ in folds]
    names = functions.texts(functions.names(found))
    dies = functions.die[found].tolist()
    lost = _losing_alone(functions, losing, folds, fold_idx, found, is_exact, names)
    rows = zip(fold_idx.tolist(), found.tolist(), names, dies, lost.tolist(), strict=True)
    for at, owner, name, die, is_lost in sorted(rows):
        if is_lost:
            here[at].has_losing = True
        else:
            here[at].add(owner, name, die)
    row = 0
    for (_, fold), described in zip(folds, here, strict=True):
        described.give([each.die for each in fold.members if each.die and not int(each.flags) & _SYNTHETIC])
        namesakes = Counter(name_before_link(each.name) for each in fold.members if int(each.flags) & _LOCAL)
        for member in fold.members:
            function[row] = described.only() if are_aliases else -1
            if function[row] < 0:
                is_one = not int(member.flags) & _LOCAL or namesakes[name_before_link(member.name)] == 1
                function[row] = described.choose(member, is_alone=len(fold.members) == 1, is_one_of_name=is_one)
            if function[row] < 0 and described.has_losing:
                function[row] = ANOTHERS
            row += 1


def _losing_alone(
    functions: _Functions,
    losing: Losing | None,
    folds: list[tuple[int, FoldClass]],
    fold_idx: I64,
    found: I64,
    is_exact: Mask,
    names: list[str],
) -> Mask:
    """Return which functions, described at bodies of one member that they are not, are of losing definitions."""
    known = [{*map(kin, (member.name, *member.aliases))} for _, fold in folds for member in fold.members[:1]]
    is_alone = np.array([len(fold.members) == 1 for _, fold in folds], np.bool_)
    is_lost = is_exact & is_alone[fold_idx]
    if losing is None:
        return np.zeros_like(is_lost)
    ats = fold_idx.tolist()
    rows = [row for row in np.flatnonzero(is_lost).tolist() if not names[row] or kin(names[row]) not in known[ats[row]]]
    others = np.array(rows, np.int64)
    others = others[losing.of(found[others])]
    members = [folds[ats[row]][1].members[0] for row in others.tolist()]
    others = others[~functions.may_be_of(found[others], [(each.name, *each.aliases) for each in members])]
    is_lost[:] = False
    is_lost[others] = True
    return is_lost


def _claim_split(functions: _Functions, folds: list[tuple[int, FoldClass]], described: I64) -> None:
    """Fill in the descriptions of members that the tables name by a declaration, as their DIE is in a .dwo."""
    members = [member for _, fold in folds for member in fold.members]
    declared = [row for row, member in enumerate(members) if int(member.flags) & _SYNTHETIC]
    if declared and functions.are_split:
        by_name = functions.split_externals()
        for row in declared:  # a name identifies only functions with external linkage
            if not int(members[row].flags) & _LOCAL:
                described[row] = by_name.get(members[row].name, -1)


def _claim_lost(functions: _Functions, folds: list[tuple[int, FoldClass]], function: I64, described: I64) -> None:
    """Fill in the descriptions of members that no table names: the tombstoned ones of their name.

    Of copies in many units the first is the one that was linked.
    """
    members = [(fold, member) for _, fold in folds for member in fold.members]
    has_function = (function >= 0).tolist()
    rows = [
        row
        for row, (fold, member) in enumerate(members)
        if not member.die and not has_function[row] and fold.merged and not int(member.flags) & _LOCAL
    ]
    if rows:
        first = functions.lost_by_name([members[row][1].name for row in rows])
        described[rows] = np.where(described[rows] < 0, first, described[rows])


def _is_last_part(name: str, symbols: tuple[str, ...]) -> bool:
    """Return whether a name without scopes is that of one of some symbols, mangled ones or others."""
    return any(base_name(symbol).partition("@")[0] == name or f"{len(name)}{name}" in symbol for symbol in symbols)


class _Described:
    """The functions that are described at one body; a body may have thousands."""

    def __init__(self) -> None:
        self._by_die: dict[int, int] = {}
        self._by_name: dict[str, list[int]] = {}
        self._by_kin: dict[str, list[tuple[int, str]]] = {}
        self._nameless: list[int] = []  # without a linkage name
        self._given: frozenset[int] = frozenset()
        self.has_losing = False

    def give(self, dies: Iterable[int]) -> None:
        """Note the DIEs of members: these functions describe no other local one."""
        self._given = frozenset(self._by_die[die] for die in dies if die in self._by_die)

    def add(self, owner: int, name: str, die: int) -> None:
        """Add one claim, with its linkage name or ""; claims come in the order of owners."""
        self._by_die.setdefault(die, owner)
        if name:
            self._by_name.setdefault(name, []).append(owner)
            self._by_kin.setdefault(kin(name), []).append((owner, name))
        else:
            self._nameless.append(owner)

    def only(self) -> int:
        """Return the one function that is described, or the first of those that have one linkage name; else -1."""
        described = [*self._by_name.values(), *([owner] for owner in self._nameless)]
        return described[0][0] if len(described) == 1 else -1

    def choose(self, member: Member, *, is_alone: bool, is_one_of_name: bool = True) -> int:
        """Return the function that describes a member, -1 where none or more than one does.

        `is_one_of_name`: no other local function of its name, before a link may have renamed it, is at the body.
        """
        flags = int(member.flags)
        is_local = bool(flags & _LOCAL)
        if member.die and not flags & _SYNTHETIC:
            # another file may have a function of the same name here
            if member.die in self._by_die or is_local:
                return self._by_die.get(member.die, -1)
        if is_local and not is_one_of_name:
            return -1
        known = {member.name, *member.aliases}
        named = [(owner, name) for name in known for owner in self._by_name.get(name, ())]
        akin = [
            each
            for kind in set(map(kin, known))
            for each in self._by_kin.get(kind, ())
            if any(same_function(base_name(name), base_name(each[1])) for name in known)
        ]
        if is_local or not is_mangled(member.name):  # in C a local function may have the name of a global one
            named, akin = ([each for each in same if each[0] not in self._given] for same in (named, akin))
        for same in (named, akin):
            if same and (is_alone or len({name for _, name in same}) == 1):
                is_one = is_alone or not is_local or len(same) == 1
                return min(owner for owner, _ in same) if is_one else -1
        return self._nameless[0] if is_alone and self._nameless else -1
