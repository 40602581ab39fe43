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

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from icf.coff.objectfile import REL32, CoffFunction, CoffObject
from icf.pe.image import PeImage
from linkpass.pe.inputs import Input
from linkpass.pe.members import Function, Members

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
        self.dropped: Counter[str] = Counter()

    def read(self, inputs: Iterable[Input]) -> None:
        """Read all objects."""
        for each in inputs:
            by_section: dict[int, list[CoffFunction]] = {}
            for function in each.object.functions():
                by_section.setdefault(function.section, []).append(function)
            for section, functions in by_section.items():
                rows = each.object.relocations(section)
                entries = list(zip(*(rows[field].tolist() for field in ("offset", "symbol", "type")), strict=True))
                for function in functions:
                    found = self._function(each, function.symbol)
                    if found is not None:
                        mine = [entry for entry in entries if function.start <= entry[0] < function.end]
                        self._read(each, function, found, mine)
        for caller in self._contradicted:
            self.dropped["copies of a function differ"] += len(self.branches.pop(caller, ()))

    def _function(self, each: Input, symbol: int) -> Function | None:
        """Return the function that a symbol of an object means."""
        obj: CoffObject = each.object
        for _ in range(len(obj.symbols)):
            name = obj.name(symbol)
            if obj.is_local(symbol):
                return self._members.local(each.file, each.name, name)
            found = self._members.external(name)
            symbol = obj.default_of(symbol) if found is None else -1
            if symbol < 0:
                return found
        return None

    def _read(
        self, each: Input, function: CoffFunction, caller: Function, relocations: list[tuple[int, int, int]]
    ) -> None:
        body = self._members.bodies[caller.body]
        start = self._image.base + body.start
        code = bytes(each.object.code(function))
        linked = bytes(self._image.read(start, len(code)))
        if not _are_alike(code, linked, function.start, relocations):
            self.dropped["the code of a function is not that of the image"] += 1
            return
        branches = set()
        for offset, symbol, kind in relocations:
            at = offset - function.start
            branch_bytes = _branch_bytes(code, at) if kind == REL32 else 0
            if not branch_bytes or at + _OPERAND_BYTES > len(code):
                continue
            callee = self._function(each, symbol)
            if callee is None:
                self.dropped["the callee is in no record of the PDB"] += 1
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


def _branch_bytes(code: bytes, at: int) -> int:
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
