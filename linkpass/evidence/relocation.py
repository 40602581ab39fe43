"""Evidence `relocation`: the image was linked with --emit-relocs.

The relocation of a call names its callee, folded or not, and stands in code that was kept: it is about the
kept member of a merged caller, and about no other. A call of a local function is relocated against its
section, and then it contains only the address; if one local function of the caller's source file is among the
members it must be that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from icf.columns import I64
from icf.elf.relocations import Relocations
from icf.elf.types import SHF_EXECINSTR, SHT_RELA, STT_SECTION, Machine
from icf.folds.members import FoldMember
from icf.model import Evidence
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Statements
from linkpass.linked import Linked, Place

# relocation types of a call's or jump's operand; GOT loads because the linker may have relaxed them to calls
_TYPES = {Machine.X86_64: (2, 4, 9, 41, 42), Machine.AARCH64: (282, 283, 280)}


def from_relocations(linked: Linked, reach: Reach) -> Statements | None:
    """Return the statements of relocations in the code about the branches; None without relocations."""
    statements = Statements(Evidence.RELOCATION)
    found = False
    relocated: set[int] = set()
    for relocations in _code_relocations(linked):
        found = True
        relocated |= _read(linked, reach, relocations, statements)
    if not found:
        return None
    _mark_loops(linked, reach, statements, relocated)
    return statements


def _code_relocations(linked: Linked) -> Iterator[Relocations]:
    for file in {id(file): file for file in (linked.image, linked.image.debug)}.values():
        for section in file.sections:
            if section.type != SHT_RELA or not 0 < section.info < len(file.sections):
                continue
            target = file.sections[section.info]
            if target.flags & SHF_EXECINSTR and not section.flags & 2:  # not one that the dynamic loader reads
                relocations = file.relocations(section)
                if relocations is not None and relocations.count:
                    yield relocations


def _read(linked: Linked, reach: Reach, relocations: Relocations, statements: Statements) -> set[int]:
    """Make the statements; return the ends of the branches that have a relocation, in any caller."""
    relocated: set[int] = set()
    aarch64 = linked.image.machine is Machine.AARCH64
    operand = np.ascontiguousarray(relocations.offset)
    order = None
    if not bool((operand[1:] >= operand[:-1]).all()):
        order = np.argsort(operand, kind="stable")
        operand = operand[order]
    types = _TYPES[linked.image.machine]
    for ends, sources, targets, is_jump in (
        (reach.call_end, reach.call_from, reach.call_target, False),
        (reach.jump_end, reach.jump_from, reach.jump_target, True),
    ):
        # `jmp *f@GOTPCREL(%rip)` relaxed is one byte shorter than it was: its operand ends before the nop
        for distance in (4,) if aarch64 or not is_jump else (4, 3):
            at = np.searchsorted(operand, ends - np.uint64(distance))
            hit = np.flatnonzero(operand[np.minimum(at, len(operand) - 1)] == ends - np.uint64(distance))
            for branch, row in zip(hit.tolist(), at[hit].tolist(), strict=True):
                if order is not None:
                    row = int(order[row])
                if int(relocations.type[row]) not in types:
                    continue
                end, source, target = int(ends[branch]), int(sources[branch]), int(targets[branch])
                relocated.add(end)
                caller = _kept(linked, source)
                if caller is None:
                    continue
                callees = _callees(linked, relocations, row, caller, target)
                if len(callees) == 1:
                    statements.state((end, caller), frozenset(callees), is_jump=is_jump)
                elif not callees:
                    statements.dropped["the code calls another function"] += 1
    return relocated


def _kept(linked: Linked, source: int) -> Place | None:
    """Return the member whose code stands at a body."""
    fold = linked.folds.get(source)
    if fold is None:
        return Place(source, 0)
    for idx, member in enumerate(fold.members):
        if member.kept is True:
            return Place(source, idx)
    return None


def _callees(linked: Linked, relocations: Relocations, row: int, caller: Place, target: int) -> list[Place]:
    """Return the members of the called body that the relocation can mean."""
    fold = linked.folds.get(target)
    if fold is None:
        return [Place(target, 0)]
    symbol = int(relocations.symbol[row])
    symbols = relocations.symbols
    place = linked.place_of_symbol.get(symbol) if symbols is linked.image.symbols else None
    if place is not None:
        return [place] if place.vaddr == target else []
    if int(symbols.type[symbol]) != STT_SECTION:
        name = symbols.name(symbol)
        named = [idx for idx, member in enumerate(fold.members) if member.is_named(name)]
    else:
        own = linked.member(caller)
        local = (idx for idx in linked.section_members(target) if _may_share_file(own, fold.members[idx]))
        named = list(islice(local, 2))  # two are as good as several
    return [Place(target, idx) for idx in named]


def _may_share_file(own: FoldMember, member: FoldMember) -> bool:
    """Return whether a caller may stem from the object of a local function: only a known difference rules it out."""
    return not (own.files and member.files) or bool(own.files & member.files)


def _mark_loops(linked: Linked, reach: Reach, statements: Statements, relocated: set[int]) -> None:
    """Drop jumps to the start of their own function that have no relocation: the assembler resolved them, they are
    loops.
    """
    own: I64 = np.flatnonzero(reach.jump_from == reach.jump_target)
    for row in own.tolist():
        end = int(reach.jump_end[row])
        if end not in relocated:
            statements.not_calls.update((end, caller) for caller in linked.places(int(reach.jump_from[row])))
