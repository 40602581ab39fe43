"""The declared classes of the objects of virtual calls, by the variables that hold them at the call.

    for (Expression *e : all) e->accept(v);      mov (%rbx), %rdi;  mov (%rdi), %rax;  call *16(%rax)
                                                 e is in %rdi there: an Expression (`icf.dwarf.registers`)

That holds for local variables, parameters, and those of inlined functions, `this` among them. Two variables can be in
one register: the object then is of one of their classes. A variable that is there in all of its scope says nothing
alone, as the call may lie outside of it; nor does one whose class cannot be read leave the others right.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from icf.columns import I64
from icf.dwarf.layouts import DieRows, Question, method_of, object_at, pointee
from icf.dwarf.registers import ANYWHERE, Asked, RegisterReader
from icf.folds.member_columns import MemberColumns
from icf.sets import in_order_met, rows_of_runs
from linkpass.linked import Linked
from linkpass.pointers.class_names import ClassNames
from linkpass.pointers.object_places import Places

_UNNAMED = "?"  # a class whose name is not known
_Object = tuple[int, int]  # the type of a pointer, and an offset from where that points


@dataclass(slots=True)
class Classes:
    """Names of classes, of which an object has one."""

    sure: set[str] = field(default_factory=set)  # of variables that are there
    possible: set[str] = field(default_factory=set)  # of variables that are there if the call is in their scope


class LocalObjects:
    """The objects of the functions of one image."""

    def __init__(self, linked: Linked, rows: DieRows, class_names: ClassNames) -> None:
        self._linked, self._rows, self._class_names = linked, rows, class_names

    def classes_of(self, places: Places) -> dict[tuple[int, int], Classes]:
        """Return the classes of the object of each place, by index, and member; known ones alone."""
        asked, members, place_of = self._asked(places)
        sure: dict[tuple[int, int], set[_Object]] = {}  # by place and row of `asked`
        anywhere: dict[tuple[int, int], list[int]] = {}  # row of `asked` and register -> types
        found = RegisterReader(self._linked.image, self._rows.reader).read(asked)
        for row, address, register, type_ in zip(*(column.tolist() for column in found), strict=True):
            if address == ANYWHERE:
                anywhere.setdefault((row, register), []).append(type_)
            else:
                place = int(place_of[address])
                sure.setdefault((place, row), set()).add((type_, places.offsets(place)[register]))
        possible = {
            (place, row): {
                (type_, offset)
                for register, offset in places.offsets(place).items()
                for type_ in anywhere.get((row, register), ())
            }
            for place, row in sure
        }
        names = self._names(sorted(set().union(*sure.values(), *possible.values())))
        classes: dict[tuple[int, int], Classes] = {}
        for (place, row), known in sure.items():
            each = classes.setdefault((place, int(members[row])), Classes())
            each.sure |= {names[key] for key in known} - {""}
            each.possible |= {names[key] for key in possible[place, row]} - {""}
        return classes

    def _asked(self, places: Places) -> tuple[Asked, I64, I64]:
        """Return what is asked of DIEs; the member that each of them describes, and the place of each address."""
        first, body_of = in_order_met(places.body[:, np.newaxis])
        bodies = places.body[first]
        members = MemberColumns(list(map(self._linked.members, bodies.tolist())))
        rows, dies = members.dies
        order = np.lexsort((-rows, dies))
        die, at = np.unique(dies[order], return_index=True)
        row = rows[order[at]]  # of several functions with one DIE the last one
        body = np.searchsorted(members.start, row, side="right") - 1

        by_body = np.argsort(body_of, kind="stable")
        start = np.searchsorted(body_of[by_body], np.arange(len(bodies) + 1))
        counts = np.diff(start)[body]
        _, own = rows_of_runs(start[body], counts)
        place = by_body[own]
        bits = np.zeros(len(places.body), np.uint64)
        ones = np.uint64(1) << places.register.astype(np.uint64)
        np.bitwise_or.at(bits, np.repeat(np.arange(len(bits)), np.diff(places.start)), ones)
        asked = Asked(die, bodies[body], np.append(0, np.cumsum(counts)), places.address[place], bits[place])
        return asked, row - members.start[body], place

    def _names(self, objects: list[_Object]) -> dict[_Object, str]:
        """Return the name of the class of each object; "" for what is of none."""
        methods = self._rows.answer(self._method_of(*each) for each in objects)
        self._class_names.read([method for method in methods if method is not None])
        return {
            each: "" if method is None else self._class_names[method] or _UNNAMED
            for each, method in zip(objects, methods, strict=True)
        }

    def _method_of(self, type_: int, offset: int) -> Question[int | None]:
        """Return a method of the class of an object that a variable of a type points to; 0 if it has none.

        None: it points to something else.
        """
        place = yield from pointee(type_)
        if not place.is_class:
            return None
        return method_of((yield from object_at(place, offset)))
