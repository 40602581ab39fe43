"""The program of an image that has a `.debug_dcall` and no `.debug_icf`: another tool's tables, or a compiler's.

The table records which DIE each call means, but not which functions share a body. This module finds that from symbols
and debug information, as the link pass does, and then turns records into those of members. Other results of the pass
are missing: no class is complete, so a record names a member, and never the exclusion of all others,
and a jump between functions counts as far as the code shows it.
"""

from __future__ import annotations

import numpy as np

from icf.code.branches import find_branches
from icf.dwarf.opening import open_debug
from icf.dwarf.scan import Scan, scan_functions
from icf.elf.image import Image
from icf.folds.calltable import CallTable, DirectBranches
from icf.folds.classes import Fold, FoldFinder
from icf.folds.functions import Bodies, find_bodies
from icf.folds.member import FoldMember
from icf.folds.unseen import find_undescribed
from icf.linkers import KeptSymbols
from icf.model import ClassFlag, DieOffset, FoldClass, Member, MemberFlag, Vaddr
from icf.tables.dcall import parse_dcall
from icf.tables.place import file_with_tables
from unwind.program.code import DecodedCode
from unwind.program.exports import Exports
from unwind.program.facts import ImageFacts
from unwind.program.functions import SymbolFunctions
from unwind.program.parts import CallRecord
from unwind.program.program import Linkage, Program


def load_foreign(image: Image, exports: Exports | None = None, linkage: Linkage | None = None) -> Program:
    """Return the program; `dropped_records` counts what the machine code contradicts."""
    file = file_with_tables(image)
    calls = parse_dcall(file.contents(".debug_dcall"), file.path)
    debug = open_debug(image)
    scan = scan_functions(debug)
    functions = scan.functions
    bodies = find_bodies(image, functions)
    finder = FoldFinder(image, bodies, debug, functions)
    folds = {fold.vaddr: fold for fold in finder.find()}
    for vaddr in _doubtful(image, finder, bodies, scan):
        if vaddr not in folds:
            end = int(bodies.end[np.searchsorted(bodies.start, np.uint64(vaddr))])
            folds[vaddr] = Fold(vaddr, end, finder.members_at(vaddr))
    identities = finder.identities
    assert identities is not None
    table = CallTable(calls, _branches(image, bodies), folds, identities)

    # every member gets a number by which records name it: its DIE, or a number after .debug_info
    dies: dict[tuple[int, int], DieOffset] = {}
    classes = []
    for vaddr, fold in sorted(folds.items()):
        for idx, member in enumerate(fold.members):
            dies[vaddr, idx] = DieOffset(member.die or debug.die_limit + len(dies) + 1)
        members = tuple(_member(member, dies[vaddr, idx]) for idx, member in enumerate(fold.members))
        flags = ClassFlag.FRAGMENT if fold.fragment else ClassFlag.NONE
        classes.append(FoldClass(Vaddr(vaddr), fold.end - vaddr, members, flags))
    records = [
        CallRecord(call.end, dies.get((call.source, call.caller), DieOffset(0)), dies[call.target, callee])
        for call in table.statements()
        if call.target in folds  # the code itself names the callee that is not merged
        for callee in call.callees
    ]
    code, others = DecodedCode(ImageFacts(image)), SymbolFunctions(image, folds_known=True)
    program = Program(
        classes,
        records,
        (),
        code,
        others,
        tail_calls_known=False,
        exports=exports,
        folds_imports=True,
        linkage=linkage,
    )
    program.dropped_records = table.dropped.total()
    return program


def _doubtful(image: Image, finder: FoldFinder, bodies: Bodies, scan: Scan) -> list[int]:
    """Return bodies of one known function with which others may have been folded: gold and mold drop symbols."""
    if image.linker.kept_symbols is KeptSymbols.SOME:
        every: list[int] = np.union1d(bodies.symbol_value, bodies.dwarf_low).tolist()
        return every
    return sorted(find_undescribed(image, finder, scan))


def _branches(image: Image, bodies: Bodies) -> DirectBranches:
    found = find_branches(image, bodies.start, np.empty(0, np.uint64))
    rows = bodies.at(found.end - np.uint64(1))
    source = np.where(rows >= 0, bodies.start[np.maximum(rows, 0)], 0) if len(rows) else found.end
    return DirectBranches(found.end, source.astype(np.uint64), found.target)


def _member(member: FoldMember, die: DieOffset) -> Member:
    flags = MemberFlag.NONE
    if member.kept:
        flags |= MemberFlag.KEPT
    if member.local:
        flags |= MemberFlag.LOCAL
    if member.nameless:
        flags |= MemberFlag.NAMELESS
    return Member(member.name, die, flags, tuple(member.aliases))
