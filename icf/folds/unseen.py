"""Bodies that a function without debug information may share without a trace.

gold drops the symbols of folded local functions. Where an object was compiled without -g and others with it, one of its
local functions may be folded into a body that debug information describes as somebody else's. Such a function is
reached from its own object alone, and from what is folded with its functions. So of each body that is called, jumped to
or named

    by code     that debug information does not describe and that is no C runtime
    by data     whose object may be that one: everything but slots of vtables that only hold what has external linkage
    by a body   that is one of these

nobody knows who else shares it. Which objects have no debug information is seen by

    their code that is left       a global function that no unit defines, a local one of a source file without a unit
    their STT_FILE symbols        of a source file without a unit. Where the object has no other local symbol it is most
                                  often empty. Else it has data that is global and no unit defines, or constructors:
                                  .init_array names a body more often than units describe it
    no STT_FILE symbol at all     somebody has dropped local symbols (-x): any code without a body may be theirs

Where all objects have it, this finds nothing and costs nothing. Not seen is an object that has no STT_FILE symbol among
others that have one (assembly without .file) when all of its code is folded.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.code.addresses import Mentions, find_mentions
from icf.code.branches import find_branches
from icf.code.pointers import CALLED_BY_LOADER, find_pointers
from icf.dwarf.dies import defined_subprograms, resolve
from icf.dwarf.units import DebugInfo
from icf.dwarf.variables import find_defined
from icf.elf.image import Image
from icf.elf.symbols import source_name
from icf.elf.types import STB_LOCAL, STT_FILE, STT_OBJECT
from icf.folds.classes import FoldFinder
from icf.folds.functions import Bodies
from icf.folds.identity import Identities
from icf.folds.tombstoned import is_unfolded
from icf.strings import hash_names
from icf.vtables.layout import Vtables
from icf.vtables.rtti import Classes

U64 = NDArray[np.uint64]
_RUNTIME_FILES = frozenset("crtstuff.c init.c static-reloc.c".split())  # of crt1.o, crtbegin.o, crtend.o
_RESERVED = "__"  # libgcc's functions, which stand alone in their objects
_INTERNAL = ("_GLOBAL__N_", "ZL")  # in the mangled name of a type that is local to its file


def find_undescribed(image: Image, finder: FoldFinder) -> frozenset[int]:
    """The bodies that functions may share of which nothing tells; of an image that gold or mold has linked."""
    if image.linker not in ("gold", "mold"):
        return frozenset()
    unseen = find_unseen(image, finder) if image.linker == "gold" else frozenset()
    return unseen.union(finder.undescribed())


def find_unseen(image: Image, finder: FoldFinder) -> frozenset[int]:
    """The described bodies that undescribed functions may share."""
    bodies = finder.bodies
    identities = finder.identities
    if identities is None or not len(bodies.dwarf_low):
        return frozenset()
    files = _undescribed_files(image, identities)
    known = _described_code(image, finder, files.bare | files.silent)
    has_bare = bool(files.bare) or files.are_lost or not known.all()
    if not has_bare and not files.silent:
        return frozenset()

    targets = np.unique(bodies.dwarf_low)
    data = find_pointers(image, targets)
    own = ~_are_external_slots(image, data.place)
    data = Mentions(data.place[own], data.target[own])
    if not has_bare:
        own = _are_undescribed_data(image, identities.debug, data.place) | _are_surplus(image, bodies, data)
        data = Mentions(data.place[own], data.target[own])
    found = np.unique(data.target)
    if not has_bare and not len(found):
        return frozenset()
    branches = find_branches(image, targets, targets)
    mentions = find_mentions(image, targets, bodies.start, bodies.end)
    target = np.concatenate([branches.target, mentions.target])
    row = bodies.at(np.concatenate([branches.end - np.uint64(1), mentions.place]))
    start = np.where(row >= 0, bodies.start[np.maximum(row, 0)], np.uint64(0))
    if has_bare:
        found = np.union1d(found, target[(row < 0) | ~known[np.maximum(row, 0)]])
    fresh = found
    while len(fresh):
        fresh = np.setdiff1d(target[np.isin(start, fresh)], found)
        found = np.union1d(found, fresh)
    return frozenset(found.tolist())


class _Files(NamedTuple):
    """The source files without a unit: those with local symbols, and those without any, which may be empty."""

    bare: set[str]
    silent: set[str]
    are_lost: bool  # no file has a symbol


def _undescribed_files(image: Image, identities: Identities) -> _Files:
    symbols = image.symbols
    rows = np.flatnonzero(symbols.type == STT_FILE)
    described = Counter(identities.files_of_units())
    present = Counter(source_name(name) for name in symbols.names(rows.tolist()) if name not in _RUNTIME_FILES)
    missing = {file for file, count in present.items() if file and count > described[file]}
    with_locals = symbols.names(np.intersect1d(rows, symbols.file_rows[_locals(image)]).tolist())
    bare = missing & {source_name(name) for name in with_locals}
    return _Files(bare, missing - bare, not present)


def _locals(image: Image) -> NDArray[np.int64]:
    """Rows of local symbols that name something."""
    symbols = image.symbols
    return np.flatnonzero((symbols.bind == STB_LOCAL) & (symbols.type != STT_FILE) & symbols.is_defined)


def _described_code(image: Image, finder: FoldFinder, bare_files: set[str]) -> NDArray[np.bool_]:
    """Which bodies are of objects with debug information, or C runtime."""
    bodies, symbols = finder.bodies, image.symbols
    known = np.isin(bodies.start, bodies.dwarf_low)
    external: dict[str, list[int]] = {}  # bodies by a name that any object may have
    for row in np.flatnonzero(~known).tolist():
        known[row] = True
        for symbol in bodies.symbols_at(int(bodies.start[row])).tolist():
            name, file = symbols.name(symbol), symbols.file_name(symbol)
            if is_unfolded(name) or name.startswith(_RESERVED):
                continue
            if not file:
                external.setdefault(name, []).append(row)
            elif file in bare_files:
                known[row] = False
    if external:
        for name in external.keys() - _defined(finder, external):
            known[external[name]] = False
    return known


def _defined(finder: FoldFinder, names: Collection[str]) -> set[str]:
    """Those of the names under which debug information defines a function, with or without code.

    gcc gives a function that it has turned into a call of an identical one no address there.
    """
    identities = finder.identities
    assert identities is not None
    debug, wanted = identities.debug, dict(zip(hash_names(list(names)).tolist(), names, strict=True))
    found: set[str] = set()
    for unit in range(len(debug.own_units)):
        if len(found) == len(wanted):
            break
        identity = resolve(debug, defined_subprograms(debug, unit).offset)
        hashes = identities.hashes(np.concatenate([identity.linkage_name, identity.name]))
        found.update(wanted[value] for value in set(hashes.tolist()) & wanted.keys())
    return found


def _are_undescribed_data(image: Image, debug: DebugInfo, places: U64) -> NDArray[np.bool_]:
    """Which words lie in data that a symbol with external linkage names, and that no unit says to define."""
    symbols = image.symbols
    rows = np.flatnonzero((symbols.type == STT_OBJECT) & (symbols.bind != STB_LOCAL) & symbols.is_defined)
    start = np.unique(symbols.value[rows])
    end = np.zeros(len(start), np.uint64)
    np.maximum.at(end, np.searchsorted(start, symbols.value[rows]), symbols.value[rows] + symbols.size_bytes[rows])
    at = np.searchsorted(start, places, side="right") - 1
    inside = at >= 0
    inside[inside] = end[at[inside]] > places[inside]
    holders = np.unique(start[at[inside]])
    inside[inside] = ~np.isin(start[at[inside]], find_defined(image, debug, holders))
    return np.asarray(inside)


def _are_surplus(image: Image, bodies: Bodies, data: Mentions) -> NDArray[np.bool_]:
    """Which words are in lists of constructors and destructors that name a body more often than units describe it."""
    in_list = np.zeros(len(data.place), np.bool_)
    for section in image.sections:
        if section.type in CALLED_BY_LOADER:
            in_list |= (data.place >= section.vaddr) & (data.place < section.vaddr + section.size_bytes)
    vaddr, count = np.unique(data.target[in_list], return_counts=True)
    surplus = [
        each for each, times in zip(vaddr.tolist(), count.tolist(), strict=True) if times > len(bodies.dwarf_at(each))
    ]
    return in_list & np.isin(data.target, np.array(surplus, np.uint64))


def _are_external_slots(image: Image, places: U64) -> NDArray[np.bool_]:
    """Which words are slots of a vtable whose class, and all of whose bases, have external linkage."""
    vtables = Vtables(image)
    groups = vtables.groups
    typeinfos = list(zip(groups.typeinfo.tolist(), groups.imports_typeinfo.tolist(), strict=True))
    classes = Classes(image, vtables.data, [one for one in typeinfos if one[0]])
    external = np.zeros(len(typeinfos), np.bool_)
    for row, typeinfo in enumerate(typeinfos):
        if not typeinfo[0] or not groups.is_alone[row] or image.symbols.bind[groups.symbol[row]] == STB_LOCAL:
            continue
        seen, queue = {typeinfo}, deque([typeinfo])
        while queue and (classes[queue[0]].is_import or classes[queue[0]].knows_bases):
            one = classes[queue.popleft()]
            if one.is_local or any(part in one.name for part in _INTERNAL):
                break
            queue.extend(base for base in one.bases if base not in seen)
            seen.update(one.bases)
        else:
            external[row] = not queue
    at = np.searchsorted(groups.start, vtables.at(places))
    is_slot = vtables.at(places) != 0
    return np.asarray(is_slot & (external[np.minimum(at, max(len(external) - 1, 0))] if len(external) else is_slot))
