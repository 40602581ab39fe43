"""Bodies that a copy which the compiler made of a function may share, though nothing describes the copy.

gcc (-fipa-icf) keeps one of two equal functions. Where the other's address is taken it makes a function of that address
all the same, and often the code of the first is inlined there. The debug information of such a copy has no address:

    DW_TAG_subprogram  cmpB          no DW_AT_low_pc, no DW_AT_inline, no DW_AT_declaration
    .symtab            cmpA  cmpB    before the linker folds both; gold drops the symbol of a folded local function

So nothing is left of cmpB but a DIE without an address. It may share any body of its unit whose address is taken, but
not `main`; vtables do not count (of two virtual functions gcc makes one an alias of the other), nor do lists of
constructors. A local function that gcc has removed for another reason looks the same, and costs an answer.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from icf.code.addresses import find_mentions
from icf.code.pointers import CALLED_BY_LOADER, find_pointers
from icf.dwarf.columns import PRODUCER
from icf.dwarf.dies import resolve
from icf.dwarf.scan import Functions
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.folds.classes import FoldFinder
from icf.vtables.layout import Vtables

U64 = NDArray[np.uint64]
_MAIN = "main"
# options that DW_AT_producer records, unless it records none
_MERGES = re.compile(rb"GNU (?!.* -fno-ipa-icf(?: |$))(?:.* (?:-O(?:[23s]|fast)|-fipa-icf)(?: |$)|[^-]*$)")


def lost_functions(debug: DebugInfo, functions: Functions, bare: U64) -> U64:
    """Those of the DIEs `bare` (of `icf.dwarf.scan`) that are local functions which gcc has merged or removed."""
    bare = bare[~np.isin(bare, functions.origin)]
    if len(bare):
        _, first, unit = np.unique(debug.units[debug.unit_of(bare), PRODUCER], return_index=True, return_inverse=True)
        producers = debug.units[debug.unit_of(bare[first]), PRODUCER].tolist()
        merge = [bool(_MERGES.match(bytes(debug.string(producer)))) for producer in producers]
        bare = bare[np.array(merge, np.bool_)[unit.reshape(-1)]]
    identity = resolve(debug, bare)
    return bare[~identity.external & ~identity.from_abstract]


def find_copied(image: Image, finder: FoldFinder, bare: U64) -> frozenset[int]:
    """The bodies that a function may share of which nothing but a DIE without an address is left, one of `bare`."""
    identities, functions, bodies = finder.identities, finder.functions, finder.bodies
    if identities is None or functions is None:
        return frozenset()
    lost = lost_functions(identities.debug, functions, bare)
    if not len(lost):
        return frozenset()
    units = np.unique(identities.debug.unit_of(lost))
    is_there = np.isin(functions.unit[bodies.dwarf_rows], units)
    targets = np.unique(bodies.dwarf_low[is_there])
    code, data = find_mentions(image, targets, bodies.start, bodies.end), find_pointers(image, targets)
    is_taken = Vtables(image).at(data.place) == 0
    for section in image.sections:
        if section.type in CALLED_BY_LOADER:
            is_taken &= (data.place < section.vaddr) | (data.place >= section.vaddr + section.size_bytes)
    found = np.union1d(code.target, data.target[is_taken])
    # their cold parts, too
    dies = np.unique(functions.die[bodies.dwarf_rows[np.isin(bodies.dwarf_low, found)]])
    parts = np.unique(bodies.dwarf_low[np.isin(functions.die[bodies.dwarf_rows], dies)]).tolist()
    return frozenset(vaddr for vaddr in parts if _MAIN not in image.symbols.names(bodies.symbols_at(vaddr).tolist()))
