"""Evidence from annotated objects in the linked image: functions at each address, and callees of their calls.

    object   f at ?: a relocation for f       call ? at f + 5: symbol h
    image    f at A, the body that f has      call T, return address A + 9
    record   at A + 9, in f: h                if h is one of the functions at T

A function is accepted at its address only if the code there is its own, operands apart: of an inline
function the linker keeps one copy, and other objects' copies may have been compiled otherwise. Several objects may have
the same copy of one function with external linkage; the linker took the first of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from icf.aliases import REAL, WRAP
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL, STT_FILE, Machine
from icf.folds.named import ReportedFunction
from icf.folds.reported import Reported
from icf.folds.tombstoned import is_unfolded
from icf.model import Evidence
from icf.sets import is_in, is_one_of
from icf.tables import ANNOTATION_SECTION as SECTION
from icf.tables.annotated_unit import AnnotatedUnit, parse_annotations
from icf.tables.annotation import Function
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Statements
from linkpass.evidence.slots import Slots
from linkpass.linked import Linked

_OPERAND_BYTES = 4
_RUNTIME_SOURCES = frozenset(("", "crtstuff.c"))
RELA_SECTION = f".rela{SECTION}"  # with --emit-relocs


class Placed(NamedTuple):
    """A function of an annotated object, and where it is."""

    function: Function
    unit_idx: int
    source: str  # of a local one; "" else

    @property
    def names(self) -> tuple[str, ...]:
        return self.function.name, *self.function.aliases


class Annotations:
    """The annotated functions of one image."""

    def __init__(self, image: Image, units: list[AnnotatedUnit]) -> None:
        self._image, self.units = image, units
        self._rows: dict[int, list[tuple[int, int]]] = {}  # address -> (unit, function)
        self._placed: dict[int, list[Placed]] = {}
        for unit_idx, unit in enumerate(units):
            for idx in np.flatnonzero(unit.address).tolist():
                self._rows.setdefault(int(unit.address[idx]), []).append((unit_idx, idx))

    @classmethod
    def read(cls, image: Image) -> Annotations | None:
        """Return the annotations of the objects; None if no object was annotated."""
        contents = image.contents(SECTION)
        return cls(image, parse_annotations(contents, image.path)) if len(contents) else None

    def at(self, vaddr: int) -> list[Placed]:
        """Return the functions whose body is at `vaddr`, in link order; one with external linkage comes once."""
        if vaddr not in self._placed:
            found: list[Placed] = []
            known: set[str] = set()
            for unit_idx, idx in self._rows.get(vaddr, ()):
                unit = self.units[unit_idx]
                if not unit.is_local[idx] and unit.name(idx) in known:
                    continue
                function = unit.function(idx)
                code = self._image.read(vaddr, function.size_bytes)
                if len(code) == function.size_bytes and function.checksum_of(code) == function.checksum:
                    found.append(Placed(function, unit_idx, unit.source if function.is_local else ""))
                    known.update(() if function.is_local else (function.name,))
            self._placed[vaddr] = found
        return self._placed[vaddr]

    def beside(self, placed: Placed, distance: int) -> Placed | None:
        """Return the function at this distance after another one in the same section of its object."""
        unit, function = self.units[placed.unit_idx], placed.function
        here = (unit.section == np.uint64(function.section)) & (
            unit.offset.astype(np.int64) == function.offset + distance
        )
        found = np.flatnonzero(here).tolist()
        if not found:
            return None
        other = unit.function(found[0])
        return Placed(other, placed.unit_idx, unit.source if other.is_local else "")

    def without_symbol(self) -> dict[int, list[ReportedFunction]]:
        """Return functions that have no symbol at their address, and local ones of which some have none."""
        symbols = self._image.symbols
        rows = symbols.functions[is_in(symbols.value[symbols.functions], np.array(sorted(self._rows), np.uint64))]
        known = Counter(
            (int(symbols.value[row]), symbols.name(row), bool(symbols.bind[row] == STB_LOCAL)) for row in rows.tolist()
        )
        found: dict[int, list[ReportedFunction]] = {}
        for vaddr, entries in self._rows.items():
            names = {(self.units[unit].name(idx), bool(self.units[unit].is_local[idx])) for unit, idx in entries}
            if len(entries) == 1 and any((vaddr, *name) in known for name in names):
                continue  # the usual case: nothing was folded
            local: dict[str, list[Placed]] = {}
            for placed in self.at(vaddr):
                for name in placed.names:
                    if placed.function.is_local:
                        local.setdefault(name, []).append(placed)
                        continue
                    keys = [key for is_local in (False, True) if known[key := (vaddr, name, is_local)]]
                    if keys:  # mold makes global symbols local
                        known[keys[0]] -= 1
                    else:
                        found.setdefault(vaddr, []).append(ReportedFunction(name, ""))
            for name, own in local.items():
                if known[vaddr, name, True] < len(own):  # whose symbol is missing is not known: all are named
                    found.setdefault(vaddr, []).extend(ReportedFunction(name, placed.source) for placed in own)
        return found

    def reported(self) -> Reported:
        """Return the same for the search for fold classes: all functions, if all objects are annotated."""
        return Reported(self.without_symbol(), given=self.is_complete())

    def is_complete(self) -> bool:
        """Return whether every source file and every function that the image names is that of an annotated object."""
        symbols = self._image.symbols
        sources = {unit.source for unit in self.units} | _RUNTIME_SOURCES
        if not sources.issuperset(symbols.names(np.flatnonzero(symbols.type == STT_FILE).tolist())):
            return False
        stubs = [section.index for section in self._image.sections if section.name.startswith((".plt", ".iplt"))]
        rows = symbols.functions[~is_one_of(symbols.shndx[symbols.functions], stubs)]
        known = np.array(sorted(self._rows), np.uint64)
        others = symbols.names(rows[~is_in(symbols.value[rows], known)].tolist())
        return all(is_unfolded(name) for name in others)

    def sections(self, removed: Sequence[str]) -> list[str]:
        """Return the sections that the pass removes, except those that are `removed` anyway."""
        names = (SECTION, RELA_SECTION)
        return [name for name in names if self._image.named(name) is not None and name not in removed]

    def statements(self, linked: Linked, reach: Reach, slots: Slots) -> Statements:
        """Return the statements of annotated functions about their calls and jumps into merged bodies."""
        statements = Statements(Evidence.TABLE)
        reader = _Reader(linked, self, statements)
        branches: dict[int, list[_Branch]] = {}
        matter = np.flatnonzero((reach.source != 0) & is_in(reach.target, linked.vaddrs))
        columns = slots.first, reach.end, reach.target, reach.is_jump, reach.operand
        rows = zip(*(column[matter].tolist() for column in columns), strict=True)
        for source, row in zip(reach.source[matter].tolist(), rows, strict=True):
            branches.setdefault(source, []).append(_Branch(*row))
        for source, own in branches.items():
            for placed in self.at(source):
                reader.read(source, placed, own)
        return statements


class _Branch(NamedTuple):
    slot: int  # of its first caller
    end: int
    target: int
    is_jump: bool
    by_register: int  # operand of a call through a register, 0 else


class _Reader:
    def __init__(self, linked: Linked, annotations: Annotations, statements: Statements) -> None:
        self._linked, self._annotations, self._statements = linked, annotations, statements

    def read(self, source: int, placed: Placed, branches: Iterable[_Branch]) -> None:
        """Add the statements of one function about the branches in its body."""
        linked, statements = self._linked, self._statements
        callers = self._callers(source, placed)
        operands = {operand.offset: operand for operand in placed.function.operands}
        for slot, end, target, is_jump, by_register in branches:
            if by_register:
                end = by_register + _OPERAND_BYTES
            # `jmp *f@GOTPCREL(%rip)` relaxed is one byte shorter than it was: its operand ends before the nop
            distances = (4, 3) if is_jump and linked.image.machine is Machine.X86_64 else (4,)
            operand = next((operands[at] for d in distances if (at := end - source - d) in operands), None)
            if operand is not None:
                callee = _called(operand.callee, self._source(placed) if operand.is_local else "")
            elif is_jump and target == source:
                statements.loops += [slot + caller for caller in callers]
                continue
            elif by_register:
                continue
            else:  # the assembler has resolved it
                callee = self._annotations.beside(placed, target - source)
            if callee is None:
                continue
            names = callee.names if operand is None or operand.is_local else _linked_names(callee.names)
            found = self._members(target, callee, names)
            statements.state_one([slot + caller for caller in callers], found)

    def _source(self, placed: Placed) -> str:
        return self._annotations.units[placed.unit_idx].source

    def _callers(self, source: int, placed: Placed) -> list[int]:
        """Return the members with the symbols of a function: several where the compiler has merged functions."""
        if source not in self._linked.folds:
            return [0]
        found = [self._members(source, placed, (name,)) for name in placed.names]
        return sorted({own[0] for own in found if len(own) == 1})

    def _members(self, vaddr: int, placed: Placed, names: tuple[str, ...]) -> list[int]:
        """Return the members of a merged body that a function of one of these names can be."""
        by_name, members = self._linked.members_by_name(vaddr), self._linked.folds[vaddr].members
        named = sorted({idx for name in names for idx in by_name.get(name, ())})
        if not placed.source:
            return named
        return [idx for idx in named if placed.source in (members.files_of(idx) or {placed.source})]


def _linked_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that a function can have in the image: with --wrap=f, f becomes __wrap_f, and __real_f is f."""
    real = [name.removeprefix(REAL) for name in names if name.startswith(REAL)]
    return (*names, *[WRAP + name for name in names], *real)


def _called(name: str, source: str) -> Placed | None:
    """Return the callee that an operand names."""
    return Placed(Function(name, (), bool(source), 0, 0, 0, 0, ()), -1, source) if name else None
