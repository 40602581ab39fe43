"""The fold classes of an image without tables, from its symbols and its debug information alone.

That is enough where the linker keeps the symbol of each folded function, or its debug information with the address of
the body: as lld does in PE images with DWARF (`icf.pe.dwarf`). A body of one function has a class only if others may
share it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from icf.dwarf.opening import open_debug
from icf.dwarf.scan import Scan, scan_functions
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.errors import IcfError
from icf.folds.classes import Fold, FoldFinder
from icf.folds.functions import Bodies, find_bodies
from icf.folds.member import FoldMember
from icf.folds.unseen import find_undescribed
from icf.model import ClassFlag, DieOffset, FoldClass, Member, MemberFlag, Vaddr
from icf.sets import difference


class Unit(NamedTuple):
    """A unit: its source file, spelled as in STT_FILE symbols, and the texts that debug information has of it."""

    file: str
    path: bytes
    directory: bytes  # in which it was compiled


class Described(NamedTuple):
    """All bodies of an image by address, and the source files of their static functions."""

    classes: list[FoldClass]
    files: list[list[frozenset[str]]]  # by class and member; spelled as in STT_FILE symbols
    units: list[Unit]


def find_classes(image: Image) -> list[FoldClass]:
    """Return the classes of an image by address; raise FormatError if its symbols are damaged.

    Of debug information that cannot be read nothing is in them.
    """
    _, folds, ends = _find(image)
    return [_class(fold, ends) for _, fold in sorted(folds.items())]


def describe(image: Image) -> Described:
    """Return all bodies, as `find_classes` does those of the classes."""
    finder, folds, ends = _find(image)
    identities, bodies = finder.identities, finder.bodies
    alone = difference(bodies.start, np.array(sorted(folds), np.uint64))
    finder.prepare(alone)
    for vaddr in alone.tolist():
        folds[vaddr] = Fold(vaddr, bodies.end_of(vaddr), finder.members_at(vaddr))
    order = [fold for _, fold in sorted(folds.items())]
    classes = [_class(fold, ends) for fold in order]
    if identities is None:
        return Described(classes, [[frozenset()] * len(fold.members) for fold in order], [])
    files = [[identities.files_of(fold.members.dies_of(idx)) for idx in range(len(fold.members))] for fold in order]
    names = zip(identities.files_of_units(), identities.paths_of_units(), strict=True)
    return Described(classes, files, [Unit(file, path, directory) for file, (path, directory) in names])


def _find(image: Image) -> tuple[FoldFinder, dict[int, Fold], dict[int, int]]:
    """Return the finder, the folds, and the ends of bodies of which nothing else shows them."""
    debug, scan = _scan(image)
    functions = scan.functions if scan is not None else None
    bodies = find_bodies(image, functions)
    finder = FoldFinder(image, bodies, debug, functions)
    folds = {fold.vaddr: fold for fold in finder.find()}
    doubtful = find_undescribed(image, finder, scan) if scan is not None else frozenset(finder.undescribed())
    for vaddr in doubtful:
        fold = folds.get(vaddr) or Fold(vaddr, bodies.end_of(vaddr), finder.members_at(vaddr))
        fold.complete = False
        folds[vaddr] = fold
    return finder, folds, _ends(image, bodies)


def _scan(image: Image) -> tuple[DebugInfo | None, Scan | None]:
    try:
        debug = open_debug(image)
        return debug, scan_functions(debug)
    except IcfError:
        return None, None


def _ends(image: Image, bodies: Bodies) -> dict[int, int]:
    """Return the ends of bodies whose size is not known: where the next one begins, or no function goes on."""
    found, others = {}, image.symbols.limits
    for row in np.flatnonzero(bodies.end <= bodies.start).tolist():
        start = int(bodies.start[row])
        limits = others[(at := bisect_right(others.data, start)) : at + 1].tolist()
        limits += [part.vaddr + part.size_bytes for part in image.sections if 0 <= start - part.vaddr < part.size_bytes]
        found[start] = min([*bodies.start[row + 1 : row + 2].tolist(), *limits], default=start)
    return found


def _class(fold: Fold, ends: dict[int, int]) -> FoldClass:
    flags = ClassFlag.MEMBERS_COMPLETE if fold.complete else ClassFlag.NONE
    flags |= ClassFlag.FRAGMENT if fold.fragment else ClassFlag.NONE
    end = ends.get(fold.vaddr, fold.end)
    return FoldClass(Vaddr(fold.vaddr), end - fold.vaddr, tuple(map(_member, fold.members)), flags)


def _member(member: FoldMember) -> Member:
    flags = MemberFlag.LOCAL if member.local else MemberFlag.NONE
    flags |= MemberFlag.NAMELESS if member.nameless else MemberFlag.NONE
    return Member(member.name, DieOffset(member.die), flags, tuple(member.aliases))
