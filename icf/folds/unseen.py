"""Bodies that a function without debug information may share without a trace (gold).

gold drops the symbols of folded local functions. Where an object was compiled without -g and others with it, one of its
local functions may be folded into a body that debug information describes as somebody else's. Such a function is
reached from its own object alone. So of each body that is called, jumped to or named

    by code     that debug information does not describe and that is no C runtime
    by data     whose object may be that one: everything but slots of vtables that only hold what has external linkage

nobody knows who else shares it. That an object has no debug information is seen by its code that is left, or its
STT_FILE symbol. Where all objects have it, this finds nothing and costs nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from icf.code.addresses import find_mentions
from icf.code.branches import find_branches
from icf.code.pointers import find_pointers
from icf.dwarf.dies import defined_subprograms, resolve
from icf.elf.image import Image
from icf.elf.symbols import source_name
from icf.elf.types import STB_LOCAL, STT_FILE
from icf.folds.classes import FoldFinder
from icf.folds.identity import Identities
from icf.folds.tombstoned import is_unfolded
from icf.strings import hash_names
from icf.vtables.layout import Vtables
from icf.vtables.rtti import Classes

U64 = NDArray[np.uint64]
_RUNTIME_FILES = frozenset("crtstuff.c init.c static-reloc.c".split())  # of crt1.o, crtbegin.o, crtend.o
_INTERNAL = ("_GLOBAL__N_", "ZL")  # in the mangled name of a type that is local to its file


def find_unseen(image: Image, finder: FoldFinder) -> frozenset[int]:
    """The described bodies that undescribed functions may share."""
    bodies = finder.bodies
    identities = finder.identities
    if identities is None or not len(bodies.dwarf_low):
        return frozenset()
    bare_files, silent_files = _undescribed_files(image, identities)
    known = _described_code(image, finder, bare_files | silent_files)
    if not bare_files and known.all():
        return frozenset()

    targets = np.unique(bodies.dwarf_low)
    branches = find_branches(image, targets, targets)
    mentions = find_mentions(image, targets, bodies.start, bodies.end)
    place = np.concatenate([branches.end - np.uint64(1), mentions.place])
    target = np.concatenate([branches.target, mentions.target])
    row = bodies.at(place)
    found = set(target[(row < 0) | ~known[np.maximum(row, 0)]].tolist())
    data = find_pointers(image, targets)
    return frozenset(found.union(data.target[~_are_external_slots(image, data.place)].tolist()))


def _undescribed_files(image: Image, identities: Identities) -> tuple[set[str], set[str]]:
    """The source files without a unit: those with local symbols, and those without any, which may be empty."""
    symbols = image.symbols
    rows = np.flatnonzero(symbols.type == STT_FILE)
    described = Counter(identities.files_of_units())
    present = Counter(source_name(name) for name in symbols.names(rows.tolist()) if name not in _RUNTIME_FILES)
    missing = {file for file, count in present.items() if file and count > described[file]}
    with_locals = symbols.names(np.intersect1d(rows, symbols.file_rows[_locals(image)]).tolist())
    bare = missing & {source_name(name) for name in with_locals}
    return bare, missing - bare


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
            if is_unfolded(name):
                continue
            if not file:
                external.setdefault(name, []).append(row)
            elif file in bare_files:
                known[row] = False
    if external and bare_files:
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
        while queue and (queue[0][1] or classes[queue[0]].knows_bases):
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
