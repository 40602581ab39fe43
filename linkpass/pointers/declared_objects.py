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
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from icf.code.operations import ANY_ELEMENT
from icf.columns import I64, U64, Mask
from icf.dwarf.layouts import DieRows, Question, method_of, object_at, pointee, pointee_at
from icf.dwarf.prototypes import IN_MEMORY, NO_RESULT, UNCLEAR, Prototypes, read_prototypes
from icf.folds.member_columns import MemberColumns
from icf.sets import distinct, distinct_pairs
from icf.vtables.parameters import object_in, read_signature, registers_of
from linkpass.linked import Linked
from linkpass.pointers.address_taken import Marks
from linkpass.pointers.class_names import ClassNames

_UNIQUE_POINTER = re.compile(r"std::(?:\w+::)?unique_ptr<")


class _Functions(NamedTuple):
    """What the DIEs of members say; a row for each member."""

    is_open: Mask  # nothing is known, or not all
    is_method: Mask
    has_result: Mask  # in memory
    start: I64  # first row of `die`; one more than there are members
    die: I64  # rows of `prototypes`
    prototypes: Prototypes


class DeclaredObjects:
    """The objects of the functions of one image."""

    def __init__(self, linked: Linked, marks: Marks, rows: DieRows, class_names: ClassNames) -> None:
        self._linked, self._marks, self._rows, self._class_names = linked, marks, rows, class_names
        self._machine = linked.image.machine

    def classes_of(self, bodies: U64, paths: I64) -> list[str]:
        """Return the name of the class of the object that each member of each body leads to by the path of the body.

        The members of a body follow each other; "" where the class is not known. A path is a row of
        `icf.code.indirect`; a body that leads to several objects is given several times.
        """
        members = MemberColumns(list(map(self._linked.members, bodies.tolist())))
        functions = self._functions(bodies.tolist(), members)
        found = [""] * len(members)
        asked: dict[tuple[int, ...], list[int]] = {}  # the type of an argument, and a path from there
        names, paths_of, machine = members.names, paths.tolist(), self._machine
        known = np.flatnonzero(~functions.is_open)
        path_of = np.searchsorted(members.start, known, side="right") - 1
        columns = known, path_of, functions.is_method[known], functions.has_result[known]
        for row, path, is_method, has_result in zip(*(column.tolist() for column in columns), strict=True):
            signature = read_signature(names[row])
            if signature is None or not (signature.parameters or signature.scope):
                continue
            register, loads, *offsets = paths_of[path]
            if not loads and not offsets[0]:
                found[row] = object_in(register, signature, machine, is_method=is_method, has_result=has_result)
                continue
            registers = registers_of(signature.parameters, machine, is_method=is_method, has_result=has_result)
            if register in registers:
                types = _types_of_parameters(functions, row, len(signature.parameters) + is_method)
                if types is not None:
                    asked.setdefault((types[registers[register]], loads, *offsets), []).append(row)
        questions = sorted(asked)
        methods = [each or 0 for each in self._rows.answer(self._method_at(*question) for question in questions)]
        self._class_names.read(methods)
        for question, method in zip(questions, methods, strict=True):
            for row in asked[question]:
                found[row] = self._class_names[method]
        return found

    def _functions(self, bodies: list[int], members: MemberColumns) -> _Functions:
        """Return what DIEs say of those members whose parameters compilers leave as they are."""
        count = len(members)
        is_virtual = _marked(self._marks.virtual, bodies, members)
        is_fixed = ~members.is_local | is_virtual | _marked(self._marks.taken, bodies, members)
        folds = map(self._linked.folds.get, bodies)
        is_part = np.array([fold is not None and fold.fragment for fold in folds], np.bool_)
        is_asked = ~members.is_nameless & is_fixed & ~np.repeat(is_part, np.diff(members.start))

        (described, dies), (declared, roots) = members.dies, members.roots
        rows: I64 = np.concatenate([described, declared])
        dies = np.concatenate([dies, roots])
        is_wanted = is_asked[rows]
        pair_rows, dies = distinct_pairs(rows[is_wanted].astype(np.uint64), dies[is_wanted])
        each, row = distinct(dies), pair_rows.astype(np.intp)
        prototypes = read_prototypes(self._rows, each)
        die = np.searchsorted(each, dies)

        is_method = is_virtual | _any(row, prototypes.is_method[die], count)
        has_parameters = _any(row, np.diff(prototypes.start)[die] != 0, count)
        result = np.full(count, NO_RESULT, np.int8)
        says = np.flatnonzero(prototypes.result[die] != NO_RESULT)[::-1]
        result[row[says]] = prototypes.result[die[says]]  # of each member its first one is assigned last
        is_open = ~is_asked | _any(row, ~prototypes.is_known[die], count) | (result == UNCLEAR)
        is_open |= ~is_method & ~has_parameters
        start = np.searchsorted(row, np.arange(count + 1))
        return _Functions(is_open, is_method, result == IN_MEMORY, start, die, prototypes)

    def _method_at(self, type_: int, loads: int, *offsets: int) -> Question[int]:
        """Return a method of the class of the object to which a path leads from an argument; 0 if it is not known."""
        place = yield from pointee(type_)
        for offset in offsets[:loads]:
            is_any = offset == ANY_ELEMENT
            if not place.is_known or is_any and place.is_class and not self._is_unique_pointer(method_of(place)):
                return 0
            place = yield from pointee_at(place, None if is_any else offset)
        place = yield from object_at(place, offsets[loads])
        return method_of(place) if place.is_known else 0

    def _is_unique_pointer(self, method: int) -> bool:
        return _UNIQUE_POINTER.match(self._class_names[method]) is not None


def _marked(members_of: dict[int, set[int]], bodies: list[int], members: MemberColumns) -> Mask:
    """Return which members are marked."""
    marked = np.zeros(len(members), np.bool_)
    for body, first in zip(bodies, members.start.tolist(), strict=False):
        marked[[first + member for member in members_of.get(body, ())]] = True
    return marked


def _any(rows: I64, are: Mask, count: int) -> Mask:
    """Return which of some rows there are with something that is true."""
    found = np.zeros(count, np.bool_)
    found[rows[are]] = True
    return found


def _types_of_parameters(functions: _Functions, member: int, count: int) -> list[int] | None:
    """Return the types of all parameters of a member, from a DIE that has them; None if none has."""
    for row in functions.die[functions.start[member] : functions.start[member + 1]].tolist():
        types = functions.prototypes.types(row)
        if len(types) == count and all(types):
            return types
    return None
