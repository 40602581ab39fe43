"""The direct calls and jumps in the objects of a link: which function each means, in each function that has it.

A relocation names the callee, and the linker changes no other byte of code. So a function of an object is looked up in
the image by its name, its bytes are compared with the body there, all but those that relocations fill, and its calls
lie where they lie in the object (`linkpass.pe.branch_sites`):

    object   List<Order>::add   +0x0e  call ?count@@YAXH@Z        image  body 0x140001060
             section            +0x0f  relocation REL32                  +0x0e  call 0x140001000   is count's body

A function with other bytes, a call that leads elsewhere in the image, and a function of which two objects have copies
with different calls give no record: `dropped` counts them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from icf.coff.objectfile import CoffFunction
from icf.elf.types import Machine
from icf.pe.image import PeImage
from linkpass.pe.branch_sites import branch_at, filled_bytes, target_of
from linkpass.pe.inputs import Input
from linkpass.pe.members import Function, Members, only


class Branch(NamedTuple):
    """A direct call or jump; addresses are those of the image."""

    end: int  # address after the instruction: of a call, its return address
    start: int
    is_call: bool
    callee: Function


class ObjectCalls:
    """Reads objects; `branches` has what each function of the image calls."""

    def __init__(self, image: PeImage, members: Members) -> None:
        self._image, self._members = image, members
        self.branches: dict[Function, frozenset[Branch]] = {}
        self._contradicted: set[Function] = set()
        self._other: set[Function] = set()  # functions of which an object has other code than the image
        self.dropped: Counter[str] = Counter()

    def read(self, each: Input) -> None:
        """Read an object."""
        by_section: dict[int, list[CoffFunction]] = {}
        for function in each.object.functions():
            by_section.setdefault(function.section, []).append(function)
        for section, functions in by_section.items():
            entries = sorted(each.object.relocation_rows(section))
            places = [entry[0] for entry in entries]
            for function in functions:
                found = only(self._members.meant_by(each, function.symbol))
                if found is not None:
                    first, last = bisect_left(places, function.start), bisect_left(places, function.end)
                    self._read(each, function, found, entries[first:last])

    def finish(self) -> None:
        """Drop what objects contradict each other about, once all are read."""
        for caller in self._contradicted:
            self.dropped["copies of a function differ"] += len(self.branches.pop(caller, ()))

    @property
    def are_of_another_link(self) -> bool:
        """Whether an object has code that cannot be what was linked."""
        others = self._other - self.branches.keys() - self._contradicted
        return bool(others) or self.dropped["the code calls another function"] > 0

    def _read(
        self, each: Input, function: CoffFunction, caller: Function, relocations: list[tuple[int, int, int]]
    ) -> None:
        body = self._members.bodies[caller.body]
        start = self._image.base + body.start
        code = bytes(each.object.code(function))
        linked = bytes(self._image.read(start, len(code)))
        machine = self._image.machine
        if not _are_alike(machine, code, linked, function.start, relocations):
            self.dropped["the code of a function is not that of the image"] += 1
            self._other.add(caller)
            return
        branches = set()
        for offset, symbol, kind in relocations:
            at = offset - function.start
            site = branch_at(machine, code, at, kind)
            if site is None:
                continue
            callee = only(self._members.meant_by(each, symbol))
            if callee is None:
                self.dropped["the callee is not known"] += 1
                continue
            there = branch_at(machine, linked, at, kind)
            target = self._image.base + self._members.bodies[callee.body].start
            is_alike = there is not None and there.is_call == site.is_call
            if there is None or not is_alike or target_of(machine, there, start) != target:
                self.dropped["the code calls another function"] += 1
                continue
            branches.add(Branch(start + site.end, start + site.start, site.is_call, callee))
        if self.branches.setdefault(caller, frozenset(branches)) != branches:
            self._contradicted.add(caller)


def _are_alike(
    machine: Machine, code: bytes, linked: bytes, start: int, relocations: list[tuple[int, int, int]]
) -> bool:
    """Return whether two functions have the same bytes where no relocation fills them."""
    if len(code) != len(linked):
        return False
    mine, theirs = bytearray(code), bytearray(linked)
    for offset, _, kind in relocations:
        size_bytes = filled_bytes(machine, kind)
        at = offset - start
        mine[at : at + size_bytes] = theirs[at : at + size_bytes] = bytes(min(size_bytes, len(mine) - at))
    return mine == theirs
