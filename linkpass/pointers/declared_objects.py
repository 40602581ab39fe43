"""The declared classes of objects to which the arguments of functions lead, by their names and debug information.

    void Each::visit(Literal& e) { then->visit(e); }       mov 8(%rdi), %rdi;  mov (%rdi), %rax;  jmp *16(%rax)

    an argument        the function's name has the types of all parameters (`icf.vtables.parameters`)
    a field of it      the DIE of the argument's class has the types of its members (`icf.dwarf.layouts`)
    an element         of an array of pointers to which a field points, whichever it is: by the type of the field

A class of the size of a pointer may be an element of such an array. Or it is a base, and the class that derives from
it has an array of other pointers after it. So only std::unique_ptr counts, as programs do not derive so from it.

A name does not say whether the function is a method, and whether it gets a pointer to its result: its DIE does. Without
one nothing is known. Nor is it where compilers may have changed the parameters: of a local function that only direct
calls enter, and of copies that they make for some calls.

The name of a class is that of the scope of its first method, as names of classes can be equal and linkage names cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from icf.code.operations import ANY_ELEMENT
from icf.dwarf import columns as col
from icf.dwarf.layouts import DieRows, Question, Rows, is_result_in_memory, method_of, object_at, pointee, pointee_at
from icf.dwarf.units import DebugInfo
from icf.vtables.parameters import objects_of, read_signature, registers_of
from linkpass.linked import Linked
from linkpass.pointers.address_taken import Marks

_UNIQUE_POINTER = re.compile(r"std::(?:\w+::)?unique_ptr<")


class Holder(NamedTuple):
    """An object that a member of a body leads to."""

    body: int
    member: int
    path: tuple[int, ...]  # a row of `icf.code.indirect`


class DeclaredObjects:
    """The objects of the functions of one image."""

    def __init__(self, linked: Linked, marks: Marks, rows: DieRows) -> None:
        self._linked, self._marks, self._rows = linked, marks, rows
        self._machine = linked.image.machine

    def classes_of(self, holders: Sequence[Holder]) -> list[str]:
        """Return the name of the class of each object; "" where it is not known."""
        order = sorted(range(len(holders)), key=lambda row: self._first_die(holders[row]))
        found = [""] * len(holders)
        for row, name in zip(order, self._rows.answer(self._class_of(holders[row]) for row in order), strict=True):
            found[row] = name or ""
        return found

    def _first_die(self, holder: Holder) -> int:
        return min(self._linked.members(holder.body).dies_of(holder.member), default=0)

    def _class_of(self, holder: Holder) -> Question[str]:
        linked, marks = self._linked, self._marks
        body, idx, (register, loads, *offsets) = holder
        members, fold = linked.members(body), linked.folds.get(body)
        names = members.names_of(idx)
        is_virtual = idx in marks.virtual.get(body, ())
        is_fixed = not members.is_local(idx) or is_virtual or idx in marks.taken.get(body, ())
        if not names or not is_fixed or fold is not None and fold.fragment:
            return ""
        signature = read_signature(names[0])
        if signature is None or not (signature.parameters or signature.scope):
            return ""
        dies = []
        for offset in sorted({*members.dies_of(idx), *members.roots_of(idx)}):
            dies.append((yield offset))
        is_method = is_virtual or any(rows.own[col.L_FLAGS] & col.L_METHOD for rows in dies)
        if not all(rows.is_known for rows in dies) or not (is_method or any(map(_parameter_types, dies))):
            return ""
        result = next((rows.own[col.L_TYPE] for rows in dies if rows.own[col.L_TYPE]), 0)
        has_result = yield from is_result_in_memory(result)
        if has_result is None:
            return ""
        if not loads and not offsets[0]:
            found = objects_of(signature, self._machine, is_method=is_method, has_result=has_result)
            return found.get(register, "")
        types = _types_of_parameters(dies, len(signature.parameters) + is_method)
        registers = registers_of(signature, self._machine, is_method=is_method, has_result=has_result)
        if register not in registers or types is None:
            return ""
        place = yield from pointee(types[registers[register]])
        for offset in offsets[:loads]:
            is_any = offset == ANY_ELEMENT
            if not place.is_known or is_any and place.is_class and not self._is_unique_pointer(place):
                return ""
            place = yield from pointee_at(place, None if is_any else offset)
        place = yield from object_at(place, offsets[loads])
        return name_of_class(linked.debug, place) if place.is_known else ""

    def _is_unique_pointer(self, rows: Rows) -> bool:
        return _UNIQUE_POINTER.match(name_of_class(self._linked.debug, rows)) is not None


def name_of_class(debug: DebugInfo, rows: Rows) -> str:
    """Return the name of a class, as hierarchies have it; "" if no method tells it."""
    name = debug.string(method_of(rows)).decode("utf-8", "surrogateescape")
    signature = read_signature(name) if name else None
    return "" if signature is None else signature.scope


def _parameter_types(rows: Rows) -> list[int]:
    return [child[col.L_TYPE] for child in rows.children if child[col.L_TAG] == col.TAG_FORMAL_PARAMETER]


def _types_of_parameters(dies: Iterable[Rows], count: int) -> list[int] | None:
    """Return the types of all parameters, from a DIE that has them; None if none has."""
    for rows in dies:
        types = _parameter_types(rows)
        if len(types) == count and all(types):
            return types
    return None
