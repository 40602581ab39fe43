"""Bodies that a function without debug information may share without a trace.

gold drops the symbols of folded local functions, lld with -x those of all local ones. If one object was compiled
without -g and others with it, one of its local functions may be folded into a body that debug information describes as
another function's. Such a function is reached from its own object alone, and from functions that fold with those of the
object. So a body may have a further member if it is called, jumped to or named

    by code     that debug information does not describe and that is not C runtime
    by data     whose object may be that one: neither what a unit defines, nor local data of a file that has a unit, nor
                slots of vtables that only hold functions with external linkage
    by a body   that is one of these

An object without debug information is seen by

    its code that is left         a global function that no unit defines, a local one of a source file without a unit
    its STT_FILE symbol           of a source file without a unit. If the object has no other local symbol it is most
                                  often empty. Else it has data that is global and no unit defines, or constructors:
                                  .init_array names a body more often than units describe it
    no local symbols at all       the link left them out (-x): any code without a body may be of such an object

An object of which only line tables were asked for counts as one without debug information (`icf.dwarf.lines_only`).
Where all objects have all of it, this finds nothing and costs nothing. It does not see an object without an
STT_FILE symbol among others that have one (assembly without .file) when all of its code is folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from icf.code.addresses import Mentions, find_mentions
from icf.code.branches import find_branches
from icf.code.pointers import CALLED_BY_LOADER, find_pointers
from icf.columns import I64, U64, Mask
from icf.dwarf.dies import defined_subprograms, resolve
from icf.dwarf.lines_only import has_lines_only
from icf.dwarf.scan import Scan
from icf.dwarf.units import DebugInfo
from icf.dwarf.variables import find_defined
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL, STT_FILE, STT_OBJECT, source_name
from icf.folds.classes import FoldFinder
from icf.folds.copied import find_copied
from icf.folds.functions import Bodies
from icf.folds.identity import Identities
from icf.folds.tombstoned import is_unfolded
from icf.folds.unseen_methods import find_unseen_methods
from icf.folds.unseen_parts import find_unseen_parts
from icf.linkers import KeptSymbols
from icf.sets import difference, distinct, is_in, rows_of_runs, union
from icf.strings import hash_names
from icf.vtables.layout import Vtables
from icf.vtables.linkage import are_external_slots

_RUNTIME_FILES = frozenset("crtstuff.c init.c static-reloc.c".split())  # of crt1.o, crtbegin.o, crtend.o
_RESERVED = "__"  # libgcc's functions, which stand alone in their objects


def find_undescribed(image: Image, finder: FoldFinder, scan: Scan) -> frozenset[int]:
    """Return the bodies that may have further members for which the image has no evidence."""
    kept = image.linker.kept_symbols
    drops_locals = kept is KeptSymbols.GLOBAL or (kept is KeptSymbols.ALL and image.symbols.lacks_locals)
    if not drops_locals and kept is not KeptSymbols.SOME:
        return frozenset()
    found = frozenset(finder.undescribed())
    if not drops_locals:
        return found
    vtables = Vtables(image)
    found |= find_unseen(image, finder, vtables) | find_copied(image, finder, scan, vtables)
    found |= find_unseen_methods(image, finder, vtables)
    return found | find_unseen_parts(image, finder, found)


def find_unseen(image: Image, finder: FoldFinder, vtables: Vtables) -> frozenset[int]:
    """Return the described bodies that undescribed functions may share."""
    bodies = finder.bodies
    identities = finder.identities
    if identities is None or not len(bodies.dwarf_low):
        return frozenset()
    is_partial = has_lines_only(identities.debug)
    files = _undescribed_files(image, identities, is_partial)
    known = _described_code(image, finder, files.bare | files.silent, is_partial)
    has_bare = bool(files.bare) or image.symbols.lacks_locals or not known.all()
    if not has_bare and not files.silent:
        return frozenset()

    targets = distinct(bodies.dwarf_low)
    data = find_pointers(image, targets)
    in_list = _are_in_lists(image, data.place)
    own = ~are_external_slots(image, vtables, data.place) & ~_are_described(bodies, data, in_list)
    own[own] = _may_be_of_others(image, identities.debug, data.place[own], files, has_bare) | in_list[own]
    data = Mentions(data.place[own], data.target[own])
    found = distinct(data.target)
    if not has_bare and not len(found):
        return frozenset()
    branches = find_branches(image, targets, targets)
    mentions = find_mentions(image, targets, bodies.start, bodies.end)
    target = np.concatenate([branches.target, mentions.target])
    row = bodies.at(np.concatenate([branches.end - np.uint64(1), mentions.place]))
    start = np.where(row >= 0, bodies.start[np.maximum(row, 0)], np.uint64(0))
    if has_bare:
        found = union(found, target[(row < 0) | ~known[np.maximum(row, 0)]])
    fresh = found
    while len(fresh):
        fresh = difference(target[is_in(start, fresh)], found)
        found = union(found, fresh)
    return frozenset(found.tolist())


class _Files(NamedTuple):
    """The source files without a unit: those with local symbols, and those without any, which may be empty."""

    bare: set[str]
    silent: set[str]


def _undescribed_files(image: Image, identities: Identities, is_partial: Mask) -> _Files:
    symbols = image.symbols
    rows = np.flatnonzero(symbols.type == STT_FILE)
    described = Counter(compress(identities.files_of_units(), ~is_partial))
    present = Counter(source_name(name) for name in symbols.names(rows.tolist()) if name not in _RUNTIME_FILES)
    missing = {file for file, count in present.items() if file and count > described[file]}
    with_locals = symbols.names(rows[is_in(rows, symbols.file_rows[_locals(image)])].tolist())
    bare = missing & {source_name(name) for name in with_locals}
    return _Files(bare, missing - bare)


def _locals(image: Image) -> I64:
    """Return the rows of local symbols that name something."""
    symbols = image.symbols
    return np.flatnonzero((symbols.bind == STB_LOCAL) & (symbols.type != STT_FILE) & symbols.is_defined)


def _described_code(image: Image, finder: FoldFinder, bare_files: set[str], is_partial: Mask) -> Mask:
    """Return which bodies are of objects with debug information, or C runtime."""
    bodies, symbols = finder.bodies, image.symbols
    known = is_in(bodies.start, bodies.dwarf_low[_are_of(finder, ~is_partial)])
    external: dict[str, list[int]] = {}  # bodies by a name that any object may have
    rows = np.flatnonzero(~known)
    first, last = (np.searchsorted(bodies.symbol_value, bodies.start[rows], side=side) for side in ("left", "right"))
    body, at = rows_of_runs(first, last - first)
    known[rows] = True
    symbol_rows = bodies.symbol_rows[at]
    for row, symbol, name in zip(rows[body].tolist(), symbol_rows.tolist(), symbols.names(symbol_rows), strict=True):
        if is_unfolded(name) or name.startswith(_RESERVED):
            continue
        file = symbols.file_name(symbol)
        if not file:
            external.setdefault(name, []).append(row)
        elif file in bare_files:
            known[row] = False
    if external:
        for name in external.keys() - _defined(finder, external, is_partial):
            known[external[name]] = False
    return known


def _are_of(finder: FoldFinder, units: Mask) -> Mask:
    """Return which of the functions at bodies, as debug information has them, are of some units."""
    if units.all():
        return np.ones(len(finder.bodies.dwarf_rows), np.bool_)
    assert finder.functions is not None and finder.identities is not None
    found: Mask = units[finder.identities.debug.unit_of(finder.functions.die[finder.bodies.dwarf_rows])]
    return found


def _likely_first(finder: FoldFinder, debug: DebugInfo, rows: Sequence[int]) -> list[int]:
    """Return all units, those of the code around some bodies first: linkers keep most of an object's code together."""
    bodies, functions, count = finder.bodies, finder.functions, len(debug.own_units)
    assert functions is not None
    after = np.searchsorted(bodies.dwarf_low, bodies.start[np.array(rows, np.int64)])
    around = np.clip(np.concatenate([after - 1, after]), 0, len(bodies.dwarf_low) - 1)
    units = debug.unit_of(functions.die[bodies.dwarf_rows[around]]).tolist()
    return list(dict.fromkeys([*(unit for unit in units if 0 <= unit < count), *range(count)]))


def _defined(finder: FoldFinder, rows_of: Mapping[str, Sequence[int]], is_partial: Mask) -> set[str]:
    """Return those of the names, of some bodies, under which debug information defines a function, with or without
    code. Units that describe only some of their functions do not count.
    """
    identities = finder.identities
    assert identities is not None
    debug, wanted = identities.debug, dict(zip(hash_names(list(rows_of)).tolist(), rows_of, strict=True))
    found: set[str] = set()
    for unit in _likely_first(finder, debug, [row for rows in rows_of.values() for row in rows]):
        if len(found) == len(wanted):
            break
        if is_partial[unit]:
            continue
        identity = resolve(debug, defined_subprograms(debug, unit).offset)
        hashes = identities.hashes(np.concatenate([identity.linkage_name, identity.name]))
        found.update(wanted[value] for value in set(hashes.tolist()) & wanted.keys())
    return found


def _may_be_of_others(image: Image, debug: DebugInfo, places: U64, files: _Files, has_bare: bool) -> Mask:
    """Return which words lie in data that may be of an object without debug information.

    Not in a local symbol of a source file that has a unit, and not in a global one that a unit says to define. Where
    all such objects are silent, the data that has no symbol is not theirs.
    """
    symbols = image.symbols
    rows = np.flatnonzero((symbols.type == STT_OBJECT) & symbols.is_defined)
    is_local = symbols.bind[rows] == STB_LOCAL
    holder, inside = _symbols_around(image, rows[~is_local], places)
    defined = inside & is_in(holder, find_defined(image, debug, distinct(holder[inside])))
    if not has_bare:
        return inside & ~defined
    file_of = symbols.file_rows[rows[is_local]]
    without = files.bare | files.silent | {""}
    described = [
        row for row in distinct(file_of[file_of >= 0]).tolist() if source_name(symbols.name(row)) not in without
    ]
    in_described = _symbols_around(image, rows[is_local][is_in(file_of, np.array(described, np.int64))], places)[1]
    return ~(defined | in_described)


def _symbols_around(image: Image, rows: I64, places: U64) -> tuple[U64, Mask]:
    """Return where the nearest preceding symbol of each place starts, and whether a symbol that starts there covers
    it.
    """
    value, size_bytes = image.symbols.value[rows], image.symbols.size_bytes[rows]
    start, inverse = np.unique(value, return_inverse=True)
    end = start.copy()
    np.maximum.at(end, inverse.reshape(-1), value + size_bytes)
    at = np.searchsorted(start, places, side="right") - 1
    if not len(start):
        return np.zeros(len(places), np.uint64), np.zeros(len(places), np.bool_)
    nearest = np.maximum(at, 0)
    return start[nearest], (at >= 0) & (places < end[nearest])


def _are_in_lists(image: Image, places: U64) -> Mask:
    """Return which words are in the lists of constructors and destructors."""
    found = np.zeros(len(places), np.bool_)
    for section in image.sections:
        if section.type in CALLED_BY_LOADER:
            found |= (places >= section.vaddr) & (places < section.vaddr + section.size_bytes)
    return found


def _are_described(bodies: Bodies, data: Mentions, in_list: Mask) -> Mask:
    """Return which of the words in lists name a body that units describe as often as it is named there."""
    vaddr, count = np.unique(data.target[in_list], return_counts=True)
    described = [len(bodies.dwarf_at(each)) for each in vaddr.tolist()]
    return in_list & is_in(data.target, vaddr[count <= np.array(described, np.int64)])
