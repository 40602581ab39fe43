"""The member in a slot of a vtable by its class: the final overrider.

A vtable of class C has methods of C and of its bases, or thunks to such. A method that debug information has in another
slot (DW_AT_vtable_elem_location) is excluded: a method that is not a thunk is in the same slot everywhere. So is one
without debug information, an alias that gcc made, if another method of its class has the slot. If just one member of
the body is left, that is the one. Of several, the most derived class has it, if

    that one overrides the others       same name and parameters; both are destructors
    no other base is there twice        in a second A, B::f does not override A::f
    the compiler keeps destructors      clang uses that of a base in place of one that does nothing else

There is no answer if members, or bases of C, may be missing, or if a member may be in any vtable. gold drops symbols
of folded local functions, mold of others, too, and with them names that gcc has united already: only the objects have
those. Of local classes, which several units may have under one name, `linkpass.pointers.method_units` tells more.
Destructors D0 and D1 are different functions; D1 and D2 are one member.

All slots are asked for together. Only where several members are left is a slot looked at by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U32, U64, Mask
from icf.demangle import demangle
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL, STT_FUNC
from icf.linkers import KeptSymbols
from icf.model import ALL_MEMBERS
from icf.sets import distinct, distinct_pairs, is_in, rows_of_runs, runs
from icf.vtables.methods import DESTRUCTOR, NO_DESTRUCTOR, is_standard
from icf.vtables.rtti import Classes
from linkpass.linked import Linked
from linkpass.pointers.class_methods import ClassMethods
from linkpass.pointers.method_units import MethodUnits
from linkpass.pointers.recorded_slots import RecordedSlots

_PATHS_MAX = 256  # to the bases of one class
_PAIRS_TOGETHER = 1 << 20  # of a slot and a method


class Asked(NamedTuple):
    """Slots with a merged body."""

    vtable_class: I64  # row of the classes
    slot: U32
    body: U64
    symbol: I64  # of the vtable
    among: Mapping[int, frozenset[int]]  # the members that other evidence leaves, by row


class _Found(NamedTuple):
    """Methods that may be in a slot, by slot."""

    asked: I64  # row of `Asked`
    type: I64  # index of the class that has the method
    method: I64  # row of `ClassMethods`

    def only(self, is_kept: Mask) -> _Found:
        """Return some of them."""
        return _Found(*(column[is_kept] for column in self))


class _Hierarchies(NamedTuple):
    """Some classes, each with all of its bases."""

    rows: I64  # of the classes
    start: I64  # first row of `type` of each class; one more than there are classes
    type: I64  # index in `names`, ascending for each class, once for each path to the base; the class itself, too
    names: list[str]  # mangled types
    is_local: Mask  # of each name: the units have a class of it for themselves
    knows_bases: Mask  # and methods: of all, except classes of the C++ library
    knows_standard_bases: Mask

    def types_of(self, class_idx: I64) -> tuple[I64, I64]:
        """Return the types of some classes, each once: the index in `class_idx`, and the type."""
        first = self.start[class_idx]
        index, at = rows_of_runs(first, self.start[class_idx + 1] - first)
        types = self.type[at]
        fresh = np.append(True, (types[1:] != types[:-1]) | (index[1:] != index[:-1]))[: len(at)]
        return index[fresh], types[fresh]


class FinalOverriders:
    """Answers for one image."""

    def __init__(self, linked: Linked, classes: Classes, *, knows_aliases: bool) -> None:
        """Prepare the search; `knows_aliases`: the objects of the link have been searched for all names."""
        self._linked, self._classes = linked, classes
        self._above = cache(self._bases_of)  # a class has many slots
        self._direct_bases = cache(self._find_direct_bases)
        symbols, kept = linked.image.symbols, linked.image.linker.kept_symbols
        # every image has local functions of the C runtime, unless it was stripped
        is_whole = bool(((symbols.type == STT_FUNC) & (symbols.bind == STB_LOCAL)).any())
        self._knows_local = knows_aliases or (is_whole and kept is KeptSymbols.ALL)
        self._knows_others = knows_aliases or (is_whole and kept in (KeptSymbols.ALL, KeptSymbols.GLOBAL))

    def members_in(self, asked: Asked) -> I64:
        """Return the member of the body that is in each slot, ALL_MEMBERS if that is open."""
        classes, class_idx = np.unique(asked.vtable_class, return_inverse=True)
        bodies, body_idx = np.unique(asked.body, return_inverse=True)
        hierarchies = self._hierarchies(classes)
        folds = [self._linked.folds[vaddr] for vaddr in bodies.tolist()]
        methods = ClassMethods([fold.members for fold in folds], hierarchies.names)
        is_known = np.array([fold.complete for fold in folds], np.bool_)
        is_known &= ~is_in(bodies, np.array(list(self._linked.undescribed), np.uint64))
        is_known &= ~methods.has_nameless & ~methods.has_any
        is_known = is_known[body_idx] & hierarchies.knows_bases[class_idx]
        is_known &= ~methods.has_standard[body_idx] | hierarchies.knows_standard_bases[class_idx]

        units = MethodUnits(
            self._linked.image.symbols, distinct(asked.symbol), methods, methods.of_classes(hierarchies.is_local)
        )
        found = self._find(asked, np.flatnonzero(is_known), body_idx, class_idx, hierarchies, methods, units)
        members = np.full(len(asked.slot), ALL_MEMBERS, np.int64)
        rows, first, end = runs(found.asked)
        if not len(rows):
            return members
        function = methods.function[found.method]
        members[rows], most = (reduce.reduceat(function, first) for reduce in (np.minimum, np.maximum))
        for at_row in np.flatnonzero(members[rows] != most).tolist():
            row, here = int(rows[at_row]), slice(int(first[at_row]), int(end[at_row]))
            left = list(zip(found.type[here].tolist(), found.method[here].tolist(), strict=True))
            top = self._most_derived(hierarchies, int(class_idx[row]), methods, left)
            if top is not None and units.may_override(methods.member[top], int(asked.symbol[row])):
                members[row] = methods.function[top]
            else:
                members[row] = ALL_MEMBERS
        return members

    def _find(
        self,
        asked: Asked,
        rows: I64,
        body_idx: I64,
        class_idx: I64,
        hierarchies: _Hierarchies,
        methods: ClassMethods,
        units: MethodUnits,
    ) -> _Found:
        """Return the methods that may be in some of the slots that are asked for.

        Classes with hundreds of equal methods have as many for each of their slots: a part of the slots at a time.
        """
        at, types = hierarchies.types_of(class_idx[rows])
        bodies = body_idx[rows[at]]
        asked_methods = methods.find(*distinct_pairs(bodies, types))[1]
        recorded = RecordedSlots.read(self._linked.virtual_dies, methods, asked_methods, units)
        before = np.append(0, np.cumsum(methods.counts(bodies, types)))
        parts: list[_Found] = []
        start = 0
        while start < len(at):
            end = int(np.searchsorted(before, before[start] + _PAIRS_TOGETHER, side="right")) - 1
            if end < len(at):  # all types of a slot stay together
                end = int(np.searchsorted(at, at[end])) if at[end] > at[start] else _after(at, start)
            index, method = methods.find(bodies[start:end], types[start:end])
            part = _Found(rows[at[start:end][index]], types[start:end][index], method)
            part = part.only(_are_among(asked.among, part.asked, methods.function[part.method]))
            part = part.only(units.can_be_in(asked.symbol[part.asked], methods.member[part.method]))
            of_class = part.asked * len(hierarchies.names) + part.type
            may_be = recorded.may_be_in(asked.slot[part.asked], methods, part.method, of_class, units)
            parts.append(part.only(may_be))
            start = end
        return _Found(*map(np.concatenate, zip(*parts, strict=True))) if parts else _Found(*[rows[:0]] * 3)

    def _hierarchies(self, rows: I64) -> _Hierarchies:
        """Return the hierarchies of the classes with these rows."""
        classes = self._classes
        of, at = np.arange(len(rows)), rows
        parts = [(of, at)]
        paths, knows_bases = np.ones(len(rows), np.int64), np.ones(len(rows), np.bool_)
        while len(of):
            paths += np.bincount(of, classes.base_counts(at), len(rows)).astype(np.int64)
            knows_bases &= paths <= _PATHS_MAX
            of, at = of[knows_bases[of]], at[knows_bases[of]]
            index, at = classes.bases_of(at)
            of = of[index]
            parts.append((of, at))
        of, at = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        knows_bases[of[~self._are_known(at)]] = False
        knows_standard_bases = np.ones(len(rows), np.bool_)
        knows_standard_bases[of[~classes.knows_bases[at]]] = False
        _, first, types = np.unique(classes.name_hashes(at), return_index=True, return_inverse=True)
        order = np.lexsort((types, of))
        start = np.searchsorted(of[order], np.arange(len(rows) + 1))
        names, is_local = classes.names(at[first]), np.bincount(types, classes.is_local[at]) > 0
        return _Hierarchies(rows, start, types[order], names, is_local, knows_bases, knows_standard_bases)

    def _are_known(self, rows: I64) -> Mask:
        """Return of which classes the name, all symbols of methods, and the bases are known.

        All bases of a class of the C++ library are such classes.
        """
        classes = self._classes
        knows = classes.has_name(rows)
        if not self._knows_local:
            knows &= ~classes.is_local[rows] if self._knows_others else np.False_
        open_rows = distinct(rows[knows & ~classes.knows_bases[rows]])
        names = classes.names(open_rows)
        others = open_rows[np.array([not is_standard(name) for name in names], np.bool_)]
        return knows & ~is_in(rows, others)

    def _most_derived(
        self, hierarchies: _Hierarchies, class_idx: int, methods: ClassMethods, found: list[tuple[int, int]]
    ) -> int | None:
        """Return the method that overrides all the others, None if that is not certain.

        Each is given by the index of its class and its row.
        """
        types = list(dict.fromkeys(type_idx for type_idx, _ in found))
        names = [hierarchies.names[type_idx] for type_idx in types]
        above = self._above(int(hierarchies.rows[class_idx]))
        tops = [name for name in names if all(other == name or other in above[name] for other in names)]
        top = [row for type_idx, row in found if tops and hierarchies.names[type_idx] == tops[0]]
        paths = hierarchies.type[hierarchies.start[class_idx] : hierarchies.start[class_idx + 1]].tolist()
        if len({int(methods.function[row]) for row in top}) != 1 or any(paths.count(each) > 1 for each in types):
            return None
        first = top[0]
        for type_idx, row in found:
            if methods.kind(row) != methods.kind(first):
                return None
            destructor = methods.destructor[row]
            if destructor == DESTRUCTOR and self._may_drop_destructors:
                return None
            if destructor == NO_DESTRUCTOR and _signature(hierarchies.names[type_idx], methods.name[row]) != _signature(
                tops[0], methods.name[first]
            ):
                return None
        return first

    def _bases_of(self, row: int) -> dict[str, set[str]]:
        """Return, for each class of a hierarchy, its direct and indirect bases."""
        bases: dict[str, set[str]] = {}

        def visit(row: int, name: str) -> set[str]:
            if name not in bases:
                bases[name] = set()  # a class that is its own base ends here
                for base, base_name in self._direct_bases(row):
                    bases[name] |= {base_name, *visit(base, base_name)}
            return bases[name]

        visit(row, *self._classes.names(np.array([row])))
        return bases

    def _find_direct_bases(self, row: int) -> list[tuple[int, str]]:
        _, rows = self._classes.bases_of(np.array([row]))
        return list(zip(rows.tolist(), self._classes.names(rows), strict=True))

    @cached_property
    def _may_drop_destructors(self) -> bool:
        return not compiled_by_gcc(self._linked.image)


def compiled_by_gcc(image: Image) -> bool:
    """Return whether all objects record that gcc compiled them."""
    comments = [text for text in bytes(image.contents(".comment")).split(b"\0") if text]
    compilers = [text for text in comments if not text.startswith((b"Linker:", b"mold "))]
    return bool(compilers) and all(text.startswith(b"GCC:") for text in compilers)


def _after(ascending: I64, at: int) -> int:
    """Return where the values that are equal to one end."""
    return int(np.searchsorted(ascending, ascending[at], side="right"))


def _are_among(among: Mapping[int, frozenset[int]], rows: I64, members: I64) -> Mask:
    """Return which members are those that other evidence leaves for their rows."""
    are = np.ones(len(rows), np.bool_)
    limited = np.flatnonzero(is_in(rows, np.array(list(among), np.int64)))
    pairs = zip(rows[limited].tolist(), members[limited].tolist(), strict=True)
    are[limited] = [member in among[row] for row, member in pairs]
    return are


def _signature(type_name: str, name: str) -> str:
    """Return a method's name and parameters as text, without its class."""
    scope = demangle(f"_ZTI{type_name}").removeprefix("typeinfo for ")
    text = demangle(name)
    _, separator, rest = text.partition(f"{scope}::")
    return rest if separator else text
