"""The declared classes of the objects of virtual calls, by the variables that hold them at the call.

    for (Expression *e : all) e->accept(v);      mov (%rbx), %rdi;  mov (%rdi), %rax;  call *16(%rax)
                                                 e is in %rdi there: an Expression (`icf.dwarf.registers`)

That holds for local variables, parameters, and those of inlined functions, `this` among them. Two variables can be in
one register: the object then is of one of their classes. A variable that is there in all of its scope says nothing
alone, as the call may lie outside of it; nor does one whose class cannot be read leave the others right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from icf.dwarf.layouts import DieRows, Question, object_at, pointee
from icf.dwarf.registers import ANYWHERE, Asked, RegisterReader
from icf.elf.types import Machine
from linkpass.linked import Linked
from linkpass.pointers.declared_objects import name_of_class

_UNNAMED = "?"  # a class whose name is not known
_DWARF_REGISTER: dict[Machine, tuple[int, ...]] = {
    Machine.X86_64: (0, 2, 1, 3, 7, 6, 4, 5, *range(8, 16)),
    Machine.AARCH64: tuple(range(32)),
}


class Place(NamedTuple):
    """A virtual call or jump, and the registers that point to its object, or into it."""

    address: int
    body: int
    offsets: dict[int, int]  # register, as DWARF numbers it -> from there to the object


@dataclass(slots=True)
class Classes:
    """Names of classes, of which an object has one."""

    sure: set[str] = field(default_factory=set)  # of variables that are there
    possible: set[str] = field(default_factory=set)  # of variables that are there if the call is in their scope


class LocalObjects:
    """The objects of the functions of one image."""

    def __init__(self, linked: Linked, rows: DieRows) -> None:
        self._linked, self._rows = linked, rows
        self._numbers: dict[tuple[int, int], int] = {}  # of a pointer type, and an offset from there

    def classes_of(self, places: list[Place]) -> dict[tuple[int, int], Classes]:
        """Return the classes of the object of each place, by index, and member; known ones alone."""
        places_of: dict[int, list[int]] = {}
        for at, place in enumerate(places):
            places_of.setdefault(place.body, []).append(at)
        members = {
            die: (body, idx)
            for body in places_of
            for each in (self._linked.members(body),)
            for idx in range(len(each))
            for die in each.dies_of(idx)
        }
        asked = []
        for die, (body, _) in sorted(members.items()):
            own = [places[at] for at in places_of[body]]
            asked.append(Asked(die, body, [(each.address, sum(1 << row for row in each.offsets)) for each in own]))
        anywhere: dict[int, dict[int, list[int]]] = {}  # index in `asked` -> register -> types
        sure: dict[tuple[int, int], set[int]] = {}
        for found in RegisterReader(self._linked.image, self._rows.reader).read(asked):
            if found.address == ANYWHERE:
                anywhere.setdefault(found.asked, {}).setdefault(found.register, []).append(found.type)
            else:
                at = places_of[asked[found.asked].start][found.address]
                number = self._number(found.type, places[at].offsets[found.register])
                sure.setdefault((at, found.asked), set()).add(number)
        possible = {
            (at, row): {
                self._number(type_, offset)
                for register, offset in places[at].offsets.items()
                for type_ in anywhere.get(row, {}).get(register, ())
            }
            for at, row in sure
        }
        names = self._rows.answer(self._class_of(*key) for key in self._numbers)
        classes: dict[tuple[int, int], Classes] = {}
        for (at, row), numbers in sure.items():
            each = classes.setdefault((at, members[asked[row].die][1]), Classes())
            each.sure |= {names[number] or "" for number in numbers} - {""}
            each.possible |= {names[number] or "" for number in possible[at, row]} - {""}
        return classes

    def _number(self, type_: int, offset: int) -> int:
        return self._numbers.setdefault((type_, offset), len(self._numbers))

    def _class_of(self, type_: int, offset: int) -> Question[str]:
        """Return the name of the class of an object that a variable of a type points to; "" for anything else."""
        place = yield from pointee(type_)
        if not place.is_class:
            return ""
        place = yield from object_at(place, offset)
        return name_of_class(self._linked.debug, place) or _UNNAMED


def dwarf_register(machine: Machine, register: int) -> int:
    """Return the number of a register in DWARF: System V ABI for x86-64, figure 3.36; AArch64 has no other."""
    return _DWARF_REGISTER[machine][register]
