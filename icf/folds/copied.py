"""Bodies that a function may share which the compiler made equal to another one, though no DIE or symbol is left of it.

gcc (-fipa-icf) keeps one of two equal functions, A. The fate of the other, B, depends on whether code may compare their
addresses. In each case its DIE is left without an address:

    DW_TAG_subprogram  B             no DW_AT_low_pc, no DW_AT_inline, no DW_AT_declaration

    a copy    the addresses of both are taken: B calls A, or has A's code inlined. It has a section of its own, which
              .debug_aranges of its unit lists. gold makes the folded section's address that of the kept one, in DIEs
              and here: where a unit lists a body more often than it describes functions there, one is a copy
    an alias  else: B is another symbol in A's section. gold drops it when it folds that section into another one. Then
              the body has several descriptions, and A, whose symbol is dropped if it is local, is one of them

gold drops the symbol of a folded local function, so only that DIE is left of B. A call of B goes through a
pointer, or the call site names the DIE. So a body may have a dropped B if it has one of these two marks, in a unit that
has such DIEs, and either its address is taken or such a call goes there. It is not `main`. Vtables do not count (they
name functions that have DIEs: of two virtual functions gcc makes one an alias of the other), nor do lists of
constructors. A function that gcc has removed for another reason has the same DIE, and neither mark.

lld overwrites the addresses in .debug_aranges; there, and where a unit has none, any body of the unit may have a copy.
"""

from __future__ import annotations

import re

import numpy as np

from icf.code.addresses import find_mentions
from icf.code.calls import direct_targets
from icf.code.jumps import jump_at
from icf.code.pointers import CALLED_BY_LOADER, find_pointers
from icf.columns import I64, U64
from icf.dwarf.aranges import read_ranges
from icf.dwarf.columns import OFFSET, PRODUCER
from icf.dwarf.dies import resolve
from icf.dwarf.scan import Functions, Scan
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.elf.types import STB_GLOBAL
from icf.folds.classes import FoldFinder
from icf.folds.functions import Bodies
from icf.sets import distinct, is_in, union
from icf.vtables.layout import Vtables

_MAIN = "main"
_JUMP_BYTES = (2, 4, 5, 6)
# options that DW_AT_producer records, unless it records none
_MERGES = re.compile(rb"GNU (?!.* -fno-ipa-icf(?: |$))(?:.* (?:-O(?:[23s]|fast)|-fipa-icf)(?: |$)|[^-]*$)")


def lost_functions(debug: DebugInfo, functions: Functions, bare: U64) -> U64:
    """Return those of the DIEs `bare` (of `icf.dwarf.scan`) that are local functions which gcc has merged or
    removed.
    """
    bare = bare[~is_in(bare, functions.origin)]
    if len(bare):
        _, first, unit = np.unique(debug.units[debug.unit_of(bare), PRODUCER], return_index=True, return_inverse=True)
        producers = debug.units[debug.unit_of(bare[first]), PRODUCER].tolist()
        merge = [bool(_MERGES.match(bytes(debug.string(producer)))) for producer in producers]
        bare = bare[np.array(merge, np.bool_)[unit.reshape(-1)]]
    identity = resolve(debug, bare)
    return bare[~identity.external & ~identity.from_abstract]


def find_copied(image: Image, finder: FoldFinder, scan: Scan, vtables: Vtables) -> frozenset[int]:
    """Return the bodies that may be shared by a function of which only a DIE without an address is left."""
    identities, functions, bodies = finder.identities, finder.functions, finder.bodies
    if identities is None or functions is None:
        return frozenset()
    debug = identities.debug
    lost = lost_functions(debug, functions, scan.bare)
    if not len(lost):
        return frozenset()
    units = distinct(debug.unit_of(lost))
    rows = bodies.dwarf_rows[is_in(functions.unit[bodies.dwarf_rows].astype(np.int64), units)]
    copies = _lists_too_often(image, debug, functions, rows, units)
    aliases = _several_functions(bodies, distinct(functions.low[rows]))
    callers = scan.sites.pc[is_in(scan.sites.origin, lost)]
    called = _called_from(image, callers)
    called = called[is_in(called, union(copies, aliases))]
    aliases = _may_have_aliases(image, finder, aliases, units)
    found = union(_address_taken(image, vtables, bodies, union(copies, aliases)), called).tolist()
    return frozenset(vaddr for vaddr in found if _MAIN not in image.symbols.names(bodies.symbols_at(vaddr).tolist()))


def _lists_too_often(image: Image, debug: DebugInfo, functions: Functions, rows: I64, units: I64) -> U64:
    """Return the bodies, described by `rows`, that one of `units` lists more often than it has functions there."""
    unit, low, high = functions.unit[rows].astype(np.int64), functions.low[rows], functions.high[rows]
    listed = read_ranges(image.debug)
    owner = debug.unit_of(listed.unit)
    owner[debug.units[np.maximum(owner, 0), OFFSET] != listed.unit] = -1
    mine = is_in(owner, units)
    ranges = _Cover(low, owner[mine], listed.low[mine], listed.high[mine])
    described = _Cover(low, unit, low, high)
    is_silent = np.ones(len(unit), np.bool_) if image.linker.overwrites_addresses else ~is_in(unit, owner)
    return distinct(low[is_silent | (ranges.count(unit, low) > described.count(unit, low))])


class _Cover:
    """How many ranges of a unit hold an address; those asked for are among `places`."""

    def __init__(self, places: U64, unit: I64, low: U64, high: U64) -> None:
        self._places = distinct(places)
        self._starts = np.sort(self._keys(unit, low))
        self._ends = np.sort(self._keys(unit, np.maximum(low, high)))

    def _keys(self, unit: I64, vaddrs: U64) -> I64:
        return unit * (len(self._places) + 1) + np.searchsorted(self._places, vaddrs)

    def count(self, unit: I64, vaddrs: U64) -> I64:
        keys = self._keys(unit, vaddrs)
        started = np.searchsorted(self._starts, keys, side="right")
        return np.asarray(started - np.searchsorted(self._ends, keys, side="right"), np.int64)


def _several_functions(bodies: Bodies, vaddrs: U64) -> U64:
    """Return those of the ascending `vaddrs` that several DIEs describe."""
    first = np.searchsorted(bodies.dwarf_low, vaddrs)
    return vaddrs[np.searchsorted(bodies.dwarf_low, vaddrs, side="right") - first > 1]


def _called_from(image: Image, return_addresses: U64) -> U64:
    """Return the targets of the direct calls and jumps that end at one of `return_addresses`."""
    ends = return_addresses.tolist()
    jumps = (jump_at(image, end - size_bytes) for end in ends for size_bytes in _JUMP_BYTES if end > size_bytes)
    targets = np.array([target for target in jumps if target is not None], np.uint64)
    return union(direct_targets(image, return_addresses), targets)


def _may_have_aliases(image: Image, finder: FoldFinder, vaddrs: U64, units: I64) -> U64:
    """Return those of `vaddrs` at which one of `units` has a function outside of COMDAT: local, or global and not
    weak.
    """
    identities, functions, bodies = finder.identities, finder.functions, finder.bodies
    assert identities is not None and functions is not None
    rows = bodies.dwarf_rows[is_in(bodies.dwarf_low, vaddrs)]
    rows = rows[is_in(functions.unit[rows].astype(np.int64), units)]
    described = identities.of(functions.die[rows].tolist())
    mine = is_in(bodies.symbol_value, vaddrs) & (image.symbols.bind[bodies.symbol_rows] == STB_GLOBAL)
    names = image.symbols.names(bodies.symbol_rows[mine].tolist())
    strong = set(zip(bodies.symbol_value[mine].tolist(), names, strict=True))
    lows = functions.low[rows].tolist()
    found = {
        low
        for low, function in zip(lows, described, strict=True)
        if not function.external or (low, function.linkage) in strong
    }
    return np.array(sorted(found), np.uint64)


def _address_taken(image: Image, vtables: Vtables, bodies: Bodies, targets: U64) -> U64:
    """Return those of `targets` that code names, or data other than vtables and lists of constructors."""
    if not len(targets):
        return targets
    code, data = find_mentions(image, targets, bodies.start, bodies.end), find_pointers(image, targets)
    is_taken = vtables.at(data.place) == 0
    for section in image.sections:
        if section.type in CALLED_BY_LOADER:
            is_taken &= (data.place < section.vaddr) | (data.place >= section.vaddr + section.size_bytes)
    return union(code.target, data.target[is_taken])
