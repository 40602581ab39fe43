"""Functions that DWARF describes but whose address is tombstoned (lld and mold without relocations).

Their DIEs have names, by which a folded symbol finds its DIE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from icf.aliases import base_name, is_mangled, kin
from icf.columns import I64, U64, Mask
from icf.demangle import short_name
from icf.dwarf.scan import Functions
from icf.elf.image import Image
from icf.elf.symbols import Symbols
from icf.folds.body_members import PlainRows
from icf.folds.functions import Bodies
from icf.folds.identity import Identities, offsets_in_debug_str
from icf.folds.member import FoldMember
from icf.folds.words import words_of_die, words_of_symbol
from icf.sets import distinct, is_in, rows_with, runs
from icf.strings import hash_names

# parts of the C runtime, which come without debug information and fold with nothing
_RUNTIME = frozenset(
    "_start _init _fini deregister_tm_clones register_tm_clones __do_global_dtors_aux frame_dummy call_weak_fn"
    " _dl_relocate_static_pie __libc_csu_init __libc_csu_fini __clang_call_terminate atexit at_quick_exit stat fstat"
    " lstat mknod stat64 fstat64 lstat64 fstatat fstatat64 mknodat __stack_chk_fail_local pthread_atfork".split()
)


class _Names(NamedTuple):
    """All functions with code, a DIE each, by the hash of the linkage name, or else of the name."""

    name_hash: U64
    die: U64
    root: U64
    external: Mask
    linkage: U64  # string reference


_Lost = dict[tuple[str, int], dict[frozenset[str], list[int]]]
"""Of one name: source file, and size -> words of a class -> DIEs. Thousands may have the name."""


class Lacking(NamedTuple):
    """A member that may have more DIEs than those at its body."""

    member: FoldMember
    vaddr: int  # of the body
    size_bytes: int


class Tombstoned:
    """Finds functions by name, whatever their address."""

    def __init__(self, identities: Identities, functions: Functions, bodies: Bodies) -> None:
        self._identities = identities
        self._functions = functions
        self._bodies = bodies
        self._words = cache(words_of_die)

    @property
    def has_any(self) -> bool:
        """Whether an address of a function is tombstoned."""
        return len(self._bodies.dwarf_rows) != len(self._functions.die)

    def describe(self, members: Sequence[Lacking], free_at: Callable[[int], Collection[int]]) -> None:
        """Add to members the DIEs of their name whose addresses are tombstoned.

        A member without a DIE gets all DIEs of its name, if these are one function. A clone (foo.isra.0) is described
        under the name of its function, a local function by gcc under its plain name: each source file has one, which
        has to be the only one of the name and of the size of the body in its unit. It may also be a DIE at the body
        that no member has: `free_at` returns those. What two members could have is neither's.
        """
        if not members:
            return
        found: list[tuple[FoldMember, str, list[int]]] = []
        local: list[tuple[Lacking, str]] = []
        names = [_described_names(lacking.member) for lacking in members]
        rows_of = self._lost_rows({name for own in names for name in own})
        lost_of = cache(lambda name: self._by_file(rows_of[name]))
        _, dies, roots, external, linkage = (column.tolist() for column in self._by_name)
        of_global = (rows_of[own[0]] for lacking, own in zip(members, names, strict=True) if not lacking.member.local)
        unsure = (row for rows in of_global for row in rows if not external[row] and not linkage[row])
        self._identities.of([dies[row] for row in unsure])  # together
        for lacking, own in zip(members, names, strict=True):
            member = lacking.member
            is_local = member.local and not is_mangled(member.name)  # a global function may have its name, too
            rows = rows_of[own[0]]
            if not member.local:
                rows = [row for row in rows if external[row] or not self._is_local(dies[row])]
            are_external = all(external[row] for row in rows)
            if own[0] == member.name and rows:
                lost = [dies[row] for row in rows]
                has_one_root = len({roots[row] for row in rows}) == 1
                is_one = (are_external and not is_local) or (has_one_root and self._may_be_of(member, lost))
                if not member.dies and is_one:
                    found.append((member, member.name, lost))
                    continue
                if are_external:
                    continue
            local += [(lacking, name) for name in own]
        rows_of_local = [row for name in {name for _, name in local} for row in rows_of[name]]
        self._identities.classes_of([dies[row] for row in rows_of_local])  # together
        of_files = [(lacking, name, self._of_files(lacking, lost_of(name))) for lacking, name in local]
        found += self._certain(of_files, free_at)
        self._identities.of({die for _, _, own in found for die in own})  # together
        for member, name, mine in found:
            described = self._identities.of(mine)
            if described and all(name == (known.linkage or known.name) for known in described):
                member.dies = [*member.dies, *mine]
                member.roots = {*member.roots, *mine, *(known.root for known in described)}
                member.linkage = described[0].linkage

    def _certain(
        self, claims: Sequence[tuple[Lacking, str, list[int]]], free_at: Callable[[int], Collection[int]]
    ) -> Iterator[tuple[FoldMember, str, list[int]]]:
        """Yield members with the DIEs that can be no other member's, and whose own cannot be one at the body."""
        counts = Counter(die for _, _, dies in claims for die in dies)
        free: dict[int, dict[str, list[int]]] = {}  # by body and name
        for lacking, name, dies in claims:
            if dies:
                if lacking.vaddr not in free:
                    free[lacking.vaddr] = self._dies_by_name(sorted(free_at(lacking.vaddr)))
                same = free[lacking.vaddr].get(name, [])
                rivals = self._identities.files_of(self._fits(lacking.member, same))
                mine = [die for die in dies if counts[die] == 1 and not rivals & self._identities.files_of([die])]
                yield lacking.member, name, mine

    def _dies_by_name(self, dies: list[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for die, described in zip(dies, self._identities.of(dies), strict=True):
            found.setdefault(described.linkage or described.name, []).append(die)
        return found

    def describe_rows(self, table: PlainRows, rows: I64, symbols: Symbols) -> None:
        """Add to members with external linkage, which are rows without a DIE, the tombstoned DIEs of their names.

        As with objects, these have to be one function: all external, or of one root.
        """
        hashes = symbols.hashes(table.symbol[rows])
        owner, found = self._lost_of(hashes)
        unsure = np.flatnonzero(~self._by_name.external[found] & (self._by_name.linkage[found] == 0))
        dies = self._by_name.die[found[unsure]].tolist()
        self._identities.of(dies)  # together
        is_left = np.ones(len(found), np.bool_)
        is_left[unsure] = [not self._is_local(die) for die in dies]
        owner, found = owner[is_left], found[is_left]
        roots = self._by_name.root[found]
        at, first, end = runs(owner)
        if not len(at):
            return
        is_one = np.logical_and.reduceat(self._by_name.external[found], first)
        is_one |= np.minimum.reduceat(roots, first) == np.maximum.reduceat(roots, first)
        at, last, counts = at[is_one], found[end[is_one] - 1], (end - first)[is_one]
        keep = np.repeat(is_one, end - first)
        table.add_dies(rows[at], counts, self._by_name.die[found[keep]], roots[keep])
        table.str_offset[rows[at]] = offsets_in_debug_str(self._by_name.linkage[last])

    def _is_local(self, die: int) -> bool:
        """Return whether a DIE that is not external is of a local function, the name of which others may have, too."""
        (described,) = self._identities.of([die])
        return not is_mangled(described.linkage or described.name) and self._identities.tells_linkage(die)

    def _lost_rows(self, names: set[str]) -> dict[str, list[int]]:
        """Return the rows of `_by_name` of each name whose DIEs are tombstoned."""
        ordered = sorted(names)
        rows_of: dict[str, list[int]] = {name: [] for name in ordered}
        for at, row in zip(*(column.tolist() for column in self._lost_of(hash_names(ordered))), strict=True):
            rows_of[ordered[at]].append(row)
        return rows_of

    def _lost_of(self, wanted: U64) -> tuple[I64, I64]:
        """Return the rows of `_by_name` with these hashes whose DIEs are tombstoned: the index of the hash, the row."""
        owner, rows = rows_with(self._by_name.name_hash, wanted)
        order, start, end = self._parts_of(self._by_name.die[rows])
        is_alive = np.zeros(len(order) + 1, np.bool_)
        is_alive[self._bodies.dwarf_rows] = True
        alive_before = np.append(0, np.cumsum(is_alive[order]))
        lost = alive_before[start] == alive_before[end]
        return owner[lost], rows[lost]

    def _by_file(self, rows: list[int]) -> _Lost:
        """Return the DIEs in these rows of `_by_name` by file and size."""
        found: _Lost = {}
        dies = self._by_name.die[rows]
        columns = dies.tolist(), self._sizes_of(dies), self._identities.classes_of(dies.tolist())
        for die, size_bytes, of_class in zip(*columns, strict=True):
            for file in self._identities.files_of([die]):
                found.setdefault((file, size_bytes), {}).setdefault(self._words(of_class), []).append(die)
        return found

    def _of_files(self, lacking: Lacking, lost: _Lost) -> list[int]:
        """Return the DIE of each source file of a local function, where only one can be its own."""
        if not lost:
            return []
        member, found = lacking.member, list[int]()
        words = words_of_symbol(member.name)
        files = member.files - (self._identities.files_of(member.dies) if member.dies else frozenset())
        for file in sorted(files):
            named = [each for size in {lacking.size_bytes, 0} for each in lost.get((file, size), {}).items()]
            fitting = [die for of_class, dies in named if of_class <= words for die in dies[:2]]  # two are several
            found += fitting if len(fitting) == 1 else ()
        return found

    def _fits(self, member: FoldMember, dies: list[int]) -> frozenset[int]:
        """Return the DIEs whose class, if they are methods, occurs in the name of a member."""
        words = words_of_symbol(member.name)
        classes = self._identities.classes_of(dies)
        return frozenset(die for die, each in zip(dies, classes, strict=True) if self._words(each) <= words)

    def _may_be_of(self, member: FoldMember, dies: list[int]) -> bool:
        """Return whether a local function can be of the file that describes it.

        Where its file is not known, as in the output of LTO, no other function may have the name.
        """
        files = self._identities.files_of(dies)
        if member.files and files:
            return bool(member.files & files)
        (hash_,) = hash_names([member.name])
        first, last = (np.searchsorted(self._by_name.name_hash, hash_, side=side) for side in ("left", "right"))
        return len(set(self._by_name.root[first:last].tolist())) == 1

    def _sizes_of(self, dies: U64) -> list[int]:
        """Return the sizes of functions whose address is tombstoned, 0 if they have several parts."""
        order, start, end = self._parts_of(dies)
        row = order[start]
        sizes: list[int] = np.where(end - start == 1, self._functions.high[row] - self._functions.low[row], 0).tolist()
        return sizes

    def _parts_of(self, dies: U64) -> tuple[I64, I64, I64]:
        """Return rows of functions by DIE, and where in these those of each DIE begin and end."""
        order, ordered = self._by_die
        return order, np.searchsorted(ordered, dies), np.searchsorted(ordered, dies, side="right")

    @cached_property
    def _by_die(self) -> tuple[I64, U64]:
        order = np.argsort(self._functions.die, kind="stable").astype(np.int64, copy=False)
        return order, self._functions.die[order]

    def nameless_sizes(self, image: Image) -> U64:
        """Return the sizes of the functions of which neither an address nor a symbol is left."""
        hashes, dies = self._by_name.name_hash, self._by_name.die
        symbols = image.symbols
        lost = ~is_in(hashes, symbols.strings.hashes(symbols.name_offset))
        lost &= ~is_in(dies, self._functions.die[self._bodies.dwarf_rows])
        rows = is_in(self._functions.die, dies[lost])
        return distinct(self._functions.high[rows] - self._functions.low[rows])

    @cached_property
    def _by_name(self) -> _Names:
        known = self._identities.columns(distinct(self._functions.die))
        known = known.rows(np.argsort(known.name_hash, kind="stable"))
        return _Names(known.name_hash, known.die, known.root, known.external, known.linkage_name)


def _described_names(member: FoldMember) -> list[str]:
    """Return the names that DWARF may have for a member; none for clones of constructors, whose variants look alike."""
    base = base_name(member.name)
    if not member.files or kin(base) != base:
        return [member.name]
    plain = short_name(base)
    # gcc leaves out defaulted template arguments, and writes the type of a conversion as the source has it: such a
    # name may be that of another function's DIE
    names = [base] if plain == base or "<" in plain or plain.startswith("operator ") else [base, plain]
    return list(dict.fromkeys([member.name, *names]))


def is_unfolded(name: str) -> bool:
    """Return whether no local function folds with this one.

    Code of the C runtime has no section of its own; a compiler or a linker makes thunks (AArch64: for distant targets).
    """
    return name in _RUNTIME or name.startswith(("_ZT", "__AArch64")) or name.endswith("$thunk")
