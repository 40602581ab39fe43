"""Evidence `relocation`: the image was linked with --emit-relocs.

The relocation of a call names its callee, folded or not, and stands in code that was kept: it is about the
kept member of a merged caller, and about no other. Of a call through a register it is the relocation of the
instruction that forms or loads the address. A call of a local function is relocated against its
section, and then it contains only the address; if one local function of the caller's source file is among the
members it must be that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from icf.columns import I64
from icf.elf.relocations import Relocations
from icf.elf.types import SHF_EXECINSTR, SHT_RELA, STT_SECTION, Machine
from icf.folds.body_members import KEPT
from icf.folds.member_columns import MemberColumns
from icf.model import Evidence
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Statements
from linkpass.evidence.slots import Slots
from linkpass.linked import Linked, Place
from linkpass.relocation_types import name_callee


def from_relocations(linked: Linked, reach: Reach, slots: Slots) -> Statements | None:
    """Return the statements of relocations in the code about the branches; None without relocations."""
    statements = Statements(Evidence.RELOCATION)
    found = False
    is_relocated = np.zeros(len(reach.end), np.bool_)
    for relocations in _code_relocations(linked):
        found = True
        operands = _operands(reach, relocations, linked.image.machine)
        is_relocated[operands[0]] = True
        _state(linked, reach, slots, relocations, operands, statements)
    if not found:
        return None
    # the assembler has resolved jumps to the start of their own function: they are loops
    loops = np.flatnonzero(reach.is_jump & (reach.source == reach.target) & ~is_relocated)
    statements.loops += slots.all_of(loops).tolist()
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


def _operands(reach: Reach, relocations: Relocations, machine: Machine) -> tuple[I64, I64]:
    """Return the branches whose operand has a relocation, and its row."""
    operand = np.ascontiguousarray(relocations.offset)
    order = np.arange(len(operand)) if (operand[1:] >= operand[:-1]).all() else np.argsort(operand, kind="stable")
    operand = operand[order]
    branches, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    # `jmp *f@GOTPCREL(%rip)` relaxed is one byte shorter than it was: its operand ends before the nop
    by_register = reach.operand != 0
    for distance in (4,) if machine is Machine.AARCH64 else (4, 3):
        wanted = np.where(by_register, reach.operand, reach.end - np.uint64(distance))
        at = np.minimum(np.searchsorted(operand, wanted), len(operand) - 1)
        hit = np.flatnonzero((operand[at] == wanted) & (reach.is_jump | (distance == 4)))
        hit = hit[name_callee(relocations.type[order[at[hit]]], by_register[hit], machine)]
        branches.append(hit)
        rows.append(order[at[hit]])
    return np.concatenate(branches), np.concatenate(rows)


def _state(
    linked: Linked, reach: Reach, slots: Slots, relocations: Relocations, operands: tuple[I64, I64], out: Statements
) -> None:
    """State what the relocations of operands, given by branches and rows, mean in the kept members."""
    branches, rows = operands
    stated: list[tuple[int, int]] = []
    kept: dict[int, int | None] = {}
    columns = rows, slots.first[branches], reach.source[branches], reach.target[branches]
    for row, slot, source, target in zip(*(column.tolist() for column in columns), strict=True):
        if source not in kept:
            kept[source] = _kept(linked, source)
        caller = kept[source]
        if caller is None:
            continue
        callees = _callees(linked, relocations, row, Place(source, caller), target)
        if len(callees) == 1:
            stated.append((slot + caller, *callees))
        elif not callees:
            out.dropped["the code calls another function"] += 1
    out.state([slot for slot, _ in stated], [callee for _, callee in stated])


def _kept(linked: Linked, source: int) -> int | None:
    """Return the member whose code stands at a body."""
    fold = linked.folds.get(source)
    if fold is None:
        return 0
    kept: list[int] = np.flatnonzero(MemberColumns([fold.members]).kept == KEPT).tolist()
    return kept[0] if kept else None


def _callees(linked: Linked, relocations: Relocations, row: int, caller: Place, target: int) -> Collection[int]:
    """Return the members of the called body that the relocation can mean."""
    if target not in linked.folds:
        return [0]
    symbol, symbols = int(relocations.symbol[row]), relocations.symbols
    place = linked.place_of_symbol(symbol) if symbols is linked.image.symbols else None
    if place is not None:
        return [place.member] if place.vaddr == target else []
    if int(symbols.type[symbol]) != STT_SECTION:
        return linked.members_by_name(target).get(symbols.name(symbol), ())
    return linked.section_members(target, linked.member(caller).files)
