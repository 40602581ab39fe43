"""The direct calls and jumps in the objects of a link: which function each means, in each function that has it.

A relocation names the callee, and the linker changes no other byte of code. So a function of an object is looked up in
the image by its name, its bytes are compared with the body there, all but those that relocations fill, and its calls
lie where they lie in the object:

    object   List<Order>::add   +0x0e  call ?count@@YAXH@Z        image  body 0x140001060
             section            +0x0f  relocation REL32                  +0x0e  call 0x140001000   is count's body

A function with other bytes, a call that leads elsewhere in the image, and a function of which two objects have copies
with different calls give no record: `dropped` counts them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from icf.coff.objectfile import REL32, CoffFunction
from icf.pe.image import PeImage
from linkpass.pe.inputs import Input
from linkpass.pe.members import Function, Members, only

# bytes that a relocation of AMD64 fills, by its type
_FILLED_BYTES = {1: 8, 2: 4, 3: 4, 4: 4, 5: 4, 6: 4, 7: 4, 8: 4, 9: 4, 10: 2, 11: 4, 12: 1}
_CALL, _JUMP, _TWO_BYTES, _CONDITIONAL = 0xE8, 0xE9, 0x0F, 0x80
_OPERAND_BYTES = 4


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
        if not _are_alike(code, linked, function.start, relocations):
            self.dropped["the code of a function is not that of the image"] += 1
            self._other.add(caller)
            return
        branches = set()
        for offset, symbol, kind in relocations:
            at = offset - function.start
            branch_bytes = branch_opcode_bytes(code, at) if kind == REL32 else 0
            if not branch_bytes or at + _OPERAND_BYTES > len(code):
                continue
            callee = only(self._members.meant_by(each, symbol))
            if callee is None:
                self.dropped["the callee is not known"] += 1
                continue
            end = start + at + _OPERAND_BYTES
            target = end + int.from_bytes(linked[at : at + _OPERAND_BYTES], "little", signed=True)
            if target != self._image.base + self._members.bodies[callee.body].start:
                self.dropped["the code calls another function"] += 1
                continue
            is_call = code[at - 1] == _CALL
            branches.add(Branch(end, end - _OPERAND_BYTES - branch_bytes, is_call, callee))
        if self.branches.setdefault(caller, frozenset(branches)) != branches:
            self._contradicted.add(caller)


def branch_opcode_bytes(code: bytes | memoryview, at: int) -> int:
    """Return the bytes of the opcode before an operand, if it is a direct call or jump; else 0.

    No other instruction has such a byte before a relative address: the byte there names a register.
    """
    if at >= 1 and code[at - 1] in (_CALL, _JUMP):
        return 1
    return 2 if at >= 2 and code[at - 2] == _TWO_BYTES and code[at - 1] & 0xF0 == _CONDITIONAL else 0


def _are_alike(code: bytes, linked: bytes, start: int, relocations: list[tuple[int, int, int]]) -> bool:
    """Return whether two functions have the same bytes where no relocation fills them."""
    if len(code) != len(linked):
        return False
    mine, theirs = bytearray(code), bytearray(linked)
    for offset, _, kind in relocations:
        size_bytes = _FILLED_BYTES.get(kind, 0)
        at = offset - start
        mine[at : at + size_bytes] = theirs[at : at + size_bytes] = bytes(min(size_bytes, len(mine) - at))
    return mine == theirs
