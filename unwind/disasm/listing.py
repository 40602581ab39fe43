"""The instructions of a stretch of code with their notes.

    Selection    arguments -> regions
    Listing      region -> instructions, each with its notes
    writers      -> text, JSON

References are looked up for many instructions together: the relocations of a large image are columns,
and each look-up in them costs as much for one place as for a thousand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from icf.code.indirect import Switch, find_switches
from icf.elf.types import ET_EXEC, Machine
from icf.image import AnyImage
from unwind.disasm.calls import Calls
from unwind.disasm.data import GOT, ImageData
from unwind.disasm.instructions import Decoder, Instruction, Kind, Read, Reference, Use
from unwind.disasm.notes import Data, Import, JumpTable, Likely, Note, Place, Pointer
from unwind.disasm.pe_data import PeData
from unwind.disasm.registers import find_references
from unwind.disasm.select import Region
from unwind.program.facts import CodeFacts
from unwind.program.program import Body, Program

_TOGETHER = 4096  # instructions
_WHOLE_BYTES = 1 << 20  # limit of a function that is read as a whole
_POINTER_BYTES = 8
_BEFORE_SWITCH = 16  # instructions among which a switch compares its value with the last case
_ABOVE = ("ja", "b.hi")
_COMPARED = re.compile(r"(.*), #?(\w+)")

Line = tuple[Instruction, list[Note]]


class Piece(NamedTuple):
    """A stretch of code; run-time address = address in it + `bias`."""

    region: Region
    lines: Iterator[Line]
    bias: int
    machine: Machine
    image: AnyImage | None = None  # none has code made at run time


class Listing:
    """Annotates the code of one image; `read` returns the bytes where they are not the file's."""

    def __init__(self, image: AnyImage, program: Program, facts: CodeFacts, read: Read | None = None) -> None:
        self._image, self._program, self._facts = image, program, facts
        self._read = read or image.read  # by addresses as linked
        self._decoder = Decoder(image.machine)
        self._calls = Calls(program)
        self._data = PeData(image) if image.format == "PE" else ImageData(image)
        self._has_numbers = image.format == "ELF" and image.elf_type == ET_EXEC  # that may be addresses

    def lines(self, region: Region) -> Iterator[Line]:
        """Yield the instructions of a region, and what is known of each."""
        instructions = self._decoder.decode(self._read, region.start, region.end)
        body = region.body
        switches: dict[int, JumpTable] = {}
        if region.end - region.start <= _WHOLE_BYTES:
            whole = list(instructions)
            if body is not None:
                switches = self._switches(whole, body)
            if self._image.machine is Machine.AARCH64:
                targets = {jump: table.targets for jump, table in switches.items()}
                found = find_references(whole, targets)
                whole = [
                    each._replace(references=(found[each.vaddr],)) if each.vaddr in found else each for each in whole
                ]
            instructions = iter(whole)
        while block := list(islice(instructions, _TOGETHER)):
            pointers = self._data.pointers(
                reference.vaddr for each in block for reference in each.references if reference.use is Use.LOAD
            )
            for each in block:
                yield each, self._notes(each, body, switches, pointers)

    def _notes(
        self, each: Instruction, body: Body | None, switches: Mapping[int, JumpTable], pointers: Mapping[int, int]
    ) -> list[Note]:
        notes: list[Note | None] = []
        if each.target is not None:
            notes.append(self._branch(each, each.target, body))
        elif each.vaddr in switches:
            notes.append(switches[each.vaddr])
        elif each.kind is Kind.CALL:
            notes.append(self._calls.virtual_call(each.end))
        elif each.kind is Kind.JUMP:
            notes.append(self._calls.virtual_jump(each.vaddr))
        notes += [self._referenced(each, reference, body, switches, pointers) for reference in each.references]
        return [note for note in notes if note is not None]

    def _branch(self, each: Instruction, target: int, body: Body | None) -> Note | None:
        """Return the target of a direct call or jump; None for those within the function."""
        calls, is_call = self._calls, each.kind is Kind.CALL
        if body is not None and body.start <= target < body.end:
            if target != body.start or not (is_call or calls.has_tail_call(each.vaddr, body)):
                return None
        found = calls.call(each.end, target, body) if is_call else calls.jump(each.vaddr, target, body)
        if target in self._facts.stubs:
            return Import(self._facts.stubs[target])
        return found or self._data.at(target)

    def _referenced(
        self,
        each: Instruction,
        reference: Reference,
        body: Body | None,
        switches: Mapping[int, JumpTable],
        pointers: Mapping[int, int],
    ) -> Note | None:
        vaddr = reference.vaddr
        if reference.use is Use.NUMBER:
            place = self._place(vaddr, with_text=True) if self._has_numbers else None
            return Likely(place) if place is not None and _is_exact(place) else None
        if reference.use is Use.ADDRESS:
            return self._place(vaddr, with_text=all(table.vaddr != vaddr for table in switches.values()))
        place = self._data.at(vaddr)
        if place is None or reference.use is Use.STORE or reference.size_bytes not in (0, _POINTER_BYTES):
            return place
        target: Place | None
        if vaddr in self._facts.imports:
            target = Import(self._facts.imports[vaddr])
        elif vaddr not in pointers:
            return place
        else:
            target = self._held(each, pointers[vaddr], body, in_got=place.section in GOT)
        return place if target is None else Pointer(place, target, self._data.is_constant(vaddr))

    def _held(self, each: Instruction, vaddr: int, body: Body | None, *, in_got: bool) -> Place | None:
        """Return the meaning of the address that an instruction loads, or calls or jumps to at once."""
        function = None
        if each.kind is Kind.CALL:
            function = self._calls.call(each.end, vaddr, body)
        elif each.kind is Kind.JUMP:
            function = self._calls.jump(each.vaddr, vaddr, body)
        if function is not None and any(meaning.evidence is not None for meaning in function.meanings):
            return function
        return self._place(vaddr, with_text=True, by_marks=not in_got)

    def _place(self, vaddr: int, *, with_text: bool, by_marks: bool = True) -> Place | None:
        """Return the meaning of an address that is held somewhere."""
        if self._data.is_code(vaddr):
            if vaddr in self._facts.stubs:
                return Import(self._facts.stubs[vaddr])
            function = self._calls.address(vaddr, by_marks=by_marks)
            if function is not None:
                return function
        return self._data.at(vaddr, with_text=with_text)

    def _switches(self, instructions: Sequence[Instruction], body: Body) -> dict[int, JumpTable]:
        """Return the switches of a function, by the address of their jump."""
        has_jumps = any(each.kind is Kind.JUMP and each.target is None for each in instructions)
        if not has_jumps:
            return {}
        row_of = {each.vaddr: row for row, each in enumerate(instructions)}
        parts = [body, *self._parts(body)]
        found = {}
        for switch in find_switches(self._image, body.start, body.end):
            row = row_of.get(switch.jump)
            if row is not None and (table := _table(switch, instructions[max(row - _BEFORE_SWITCH, 0) : row], parts)):
                found[switch.jump] = table
        return found

    def _parts(self, body: Body) -> Iterable[Body]:
        nodes = {part for node in body.nodes for part in self._program.parts(node)}
        return dict.fromkeys(self._program.candidates[node][0] for node in sorted(nodes))


def _table(switch: Switch, before: Sequence[Instruction], parts: Sequence[Body]) -> JumpTable | None:
    """Return the entries of a table that lead into the function.

    As many as there are cases, where the code shows it.
    """
    count = _case_count(before)
    targets = []
    for target in switch.targets if count is None else switch.targets[:count]:
        if not any(part.start <= target < part.end for part in parts):
            break
        targets.append(target)
    return JumpTable(switch.table, tuple(targets), count) if targets else None


def _case_count(before: Sequence[Instruction]) -> int | None:
    """Return how many entries the comparison before a switch lets through; None: there is none."""
    for at in range(len(before) - 1, 0, -1):
        if before[at].kind is not Kind.OTHER and before[at].mnemonic not in _ABOVE:
            return None
        if before[at].mnemonic in _ABOVE:
            compared = _COMPARED.fullmatch(before[at - 1].operands) if before[at - 1].mnemonic == "cmp" else None
            try:
                return int(compared[2], 0) + 1 if compared else None
            except ValueError:
                return None
    return None


def _is_exact(place: Place) -> bool:
    """Return whether a number is probably an address: a function, a symbol or text begins there."""
    if isinstance(place, Data):
        return place.text is not None or (bool(place.names) and place.offset == 0) or _is_vtable(place)
    return isinstance(place, Import) or place.offset == 0


def _is_vtable(place: Data) -> bool:
    return any(name.startswith("_ZTV") for name in place.names)
