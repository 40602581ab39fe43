"""The member in a slot of a vtable by its class: the final overrider.

A vtable of class C has methods of C and of its bases, or thunks to such. A method that debug information has in another
slot (DW_AT_vtable_elem_location) is excluded: a method that is not a thunk is in the same slot everywhere. If just one
member of the body is left, that is the one. Of several, the most derived class has it, if

    that one overrides the others       same name and parameters; both are destructors
    no other base is there twice        in a second A, B::f does not override A::f
    the compiler keeps destructors      clang uses that of a base in place of one that does nothing else

There is no answer if members, or bases of C, may be missing, or if a member may be in any vtable. gold drops symbols
of folded local functions, mold of others, too, and with them names that gcc has united already: only the objects have
those.
Destructors D0 and D1 are different functions; D1 and D2 are one member.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.demangle import demangle
from icf.dwarf.dies import read_dies
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL, STT_FUNC
from icf.folds.member_columns import MemberColumns
from icf.linkers import KeptSymbols
from icf.model import ALL_MEMBERS
from icf.sets import distinct
from icf.vtables.methods import Method, Methods, is_standard
from icf.vtables.rtti import Classes, TypeInfo
from linkpass.linked import Linked

_PATHS_MAX = 256  # to the bases of one class


class Hierarchy(NamedTuple):
    """A class and all of its bases."""

    paths: dict[str, int]  # mangled type -> number of paths on which it is a base; the class itself: 1
    knows_bases: bool  # and methods: of all, except classes of the C++ library
    knows_standard_bases: bool


class FinalOverriders:
    """Answers for one image."""

    def __init__(self, linked: Linked, classes: Classes, *, knows_aliases: bool) -> None:
        """Prepare the search; `knows_aliases`: the objects of the link have been searched for all names."""
        self._linked, self._classes = linked, classes
        symbols, kept = linked.image.symbols, linked.image.linker.kept_symbols
        # every image has local functions of the C runtime, unless it was stripped
        is_whole = bool(((symbols.type == STT_FUNC) & (symbols.bind == STB_LOCAL)).any())
        self._knows_local = knows_aliases or (is_whole and kept is KeptSymbols.ALL)
        self._knows_others = knows_aliases or (is_whole and kept in (KeptSymbols.ALL, KeptSymbols.GLOBAL))
        self._hierarchies: dict[TypeInfo, Hierarchy] = {}
        self._methods: dict[int, Methods | None] = {}
        self._slots: dict[int, list[set[int]]] = {}

    def member_at(self, typeinfo: TypeInfo, slot: int, vaddr: int, among: Collection[int] | None = None) -> int:
        """Return the member of a merged body that a vtable of that class has in a slot.

        One of `among`, if that is given.
        """
        hierarchy = self._hierarchy(typeinfo)
        methods = self._methods_at(vaddr)
        if methods is None or not hierarchy.knows_bases:
            return ALL_MEMBERS
        if methods.has_standard and not hierarchy.knows_standard_bases:
            return ALL_MEMBERS
        found = [
            (name, method)
            for name in hierarchy.paths
            for method in methods.of_class(name)
            if (among is None or method.function in among) and self._may_be_in(slot, vaddr, method)
        ]
        if len({method.function for _, method in found}) <= 1:
            return found[0][1].function if found else ALL_MEMBERS
        return self._most_derived(typeinfo, hierarchy, found)

    def _methods_at(self, vaddr: int) -> Methods | None:
        """Return the members of a body as methods; None if one may be missing, or be in a vtable of any class."""
        if vaddr not in self._methods:
            fold = self._linked.folds[vaddr]
            is_complete = fold.complete and vaddr not in self._linked.undescribed
            methods = None
            if is_complete and all(fold.members.names):
                methods = self._linked.methods(vaddr)
            self._methods[vaddr] = None if methods is None or methods.has_any else methods
        return self._methods[vaddr]

    def _may_be_in(self, slot: int, vaddr: int, method: Method) -> bool:
        """Return whether debug information, if there is any, has a method in that slot of its class's own vtable."""
        if method.thunk or method.destructor:  # there are two of a destructor, and clang records 0 for both
            return True
        if vaddr not in self._slots:
            columns = MemberColumns([self._linked.folds[vaddr].members])
            rows, roots = columns.roots
            dies = distinct(roots)
            after = read_dies(self._linked.debug, dies).vtable_slot[np.searchsorted(dies, roots)]
            slots: list[set[int]] = [set() for _ in range(len(columns))]
            for row, slot_after in zip(rows[after != 0].tolist(), after[after != 0].tolist(), strict=True):
                slots[row].add(slot_after - 1)
            self._slots[vaddr] = slots
        known = self._slots[vaddr][method.function]
        return not known or slot in known

    def _hierarchy(self, typeinfo: TypeInfo) -> Hierarchy:
        if typeinfo not in self._hierarchies:
            paths: dict[str, int] = {}
            left, knows, knows_standard = [typeinfo], True, True
            for _ in range(_PATHS_MAX):
                if not left:
                    break
                one = self._classes[left.pop()]
                knows &= bool(one.name) and (one.knows_bases or is_standard(one.name))
                knows &= self._knows_local or (self._knows_others and not one.is_local)
                knows_standard &= one.knows_bases
                paths[one.name] = paths.get(one.name, 0) + 1
                left += one.bases
            self._hierarchies[typeinfo] = Hierarchy(paths, knows and not left, knows_standard)
        return self._hierarchies[typeinfo]

    def _most_derived(self, typeinfo: TypeInfo, hierarchy: Hierarchy, found: list[tuple[str, Method]]) -> int:
        """Return the method that overrides all the others."""
        names = list(dict.fromkeys(name for name, _ in found))
        above = self._bases_of(typeinfo)
        tops = [name for name in names if all(other == name or other in above[name] for other in names)]
        top = [method for name, method in found if tops and name == tops[0]]
        if len({method.function for method in top}) != 1 or any(hierarchy.paths[name] > 1 for name in names):
            return ALL_MEMBERS
        first = top[0]
        for name, method in found:
            if (method.thunk, method.destructor) != (first.thunk, first.destructor):
                return ALL_MEMBERS
            if method.destructor == "D" and self._may_drop_destructors:
                return ALL_MEMBERS
            if not method.destructor and _signature(name, method) != _signature(tops[0], first):
                return ALL_MEMBERS
        return first.function

    def _bases_of(self, typeinfo: TypeInfo) -> dict[str, set[str]]:
        """Return, for each class of a hierarchy, its direct and indirect bases."""
        bases: dict[str, set[str]] = {}

        def visit(key: TypeInfo) -> set[str]:
            one = self._classes[key]
            if one.name not in bases:
                bases[one.name] = set()  # a class that is its own base ends here
                for base in one.bases:
                    bases[one.name] |= {self._classes[base].name, *visit(base)}
            return bases[one.name]

        visit(typeinfo)
        return bases

    @cached_property
    def _may_drop_destructors(self) -> bool:
        return not compiled_by_gcc(self._linked.image)


def compiled_by_gcc(image: Image) -> bool:
    """Return whether all objects record that gcc compiled them."""
    comments = [text for text in bytes(image.contents(".comment")).split(b"\0") if text]
    compilers = [text for text in comments if not text.startswith((b"Linker:", b"mold "))]
    return bool(compilers) and all(text.startswith(b"GCC:") for text in compilers)


def _signature(type_name: str, method: Method) -> str:
    """Return a method's name and parameters as text, without its class."""
    scope = demangle(f"_ZTI{type_name}").removeprefix("typeinfo for ")
    text = demangle(method.name)
    _, separator, rest = text.partition(f"{scope}::")
    return rest if separator else text
