"""The functions at each address, from the objects of a link: as complete as a linker's report, and more exact.

A report names sections; here a function has its symbol and, if it is local, its source file. The result is complete if
the objects are: a function of a missing object could have been folded into any body, without a trace. So
the code of the image that no object has is searched for, too. Only the C runtime may be unknown: it folds with nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from icf.aliases import REAL
from icf.code.branches import executable_sections
from icf.columns import I64
from icf.elf.image import Image
from icf.errors import IcfError
from icf.folds.named import ReportedFunction
from icf.folds.report import FoldedSections
from icf.folds.reported import Reported
from icf.folds.tombstoned import is_unfolded
from icf.linkers import KeptSymbols
from icf.sets import is_in
from linkpass.objects.columns import NOWHERE, LinkColumns
from linkpass.objects.content import possible_places
from linkpass.objects.functions import LinkObjects
from linkpass.objects.missing import find_missing
from linkpass.objects.placement import Placement


class PlacedFunctions(NamedTuple):
    """The functions that the symbols of an image lack, and those that its objects lack."""

    functions: dict[int, list[ReportedFunction]]  # address -> functions that have no symbol there, in link order
    unknown: list[str]  # what the image has and the objects lack; sorted


def find_reported(
    image: Image, report: list[FoldedSections] | None, objects: LinkObjects | None
) -> Reported | list[FoldedSections] | None:
    """Return the functions of the objects for an image that gold or mold has linked; the report if objects are missing.

    Raise IcfError if there is neither and symbols are not enough: mold drops those of functions of every kind.
    """
    lack, hint = "its image alone is not enough", "give the objects of the link with --objects"
    if objects is not None and objects.objects:
        placed = place_functions(image, objects)
        if not placed.unknown:
            return Reported(placed.functions, given=True)
        more = f" and {len(placed.unknown) - 1} more" if len(placed.unknown) > 1 else ""
        lack = f"the objects do not have all of it (not found: {placed.unknown[0]}{more})"
        hint = "give all objects and archives of the link, those of the compiler (libgcc.a) too"
    if report is None and image.linker.kept_symbols is KeptSymbols.SOME:
        raise IcfError(
            f"{image.path}: mold leaves no trace of many functions that it folds, and {lack}",
            hint=f"{hint}, or link with -Wl,--print-icf-sections and give what it prints with --icf-report",
        )
    return report


def place_functions(image: Image, objects: LinkObjects) -> PlacedFunctions:
    """Find the functions of the objects in the image."""
    columns = LinkColumns(image, objects.objects)
    placement = Placement(image, columns)
    found = columns.definitions
    lost = np.flatnonzero(found.is_function & ~columns.has_symbol)
    bases = placement.base[found.section[lost]]
    is_there = bases != NOWHERE
    pairs = set(zip(lost[is_there].tolist(), (bases + found.value[lost])[is_there].tolist(), strict=True))
    pairs |= _in_sections(columns, lost, placement.places)
    pairs |= _in_sections(columns, lost, possible_places(image, placement, placement.missing()))
    first = _first_by_key(columns, lost)
    pairs = {(row if found.is_local[row] else first[int(found.key[row])], vaddr) for row, vaddr in pairs}
    pairs |= {(first[key], vaddr) for key, vaddr in placement.globals if key in first}
    functions: dict[int, list[ReportedFunction]] = {}
    for row, vaddr in sorted(pairs):
        functions.setdefault(vaddr, []).append(_reported(columns, row))
    return PlacedFunctions(functions, _unknown(image, placement))


def _in_sections(columns: LinkColumns, lost: I64, places: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the functions without a symbol in sections at these addresses, with their addresses."""
    found = columns.definitions
    rows_in: dict[int, list[int]] = {}
    for row, section in zip(lost.tolist(), found.section[lost].tolist(), strict=True):
        rows_in.setdefault(section, []).append(row)
    return {(row, base + int(found.value[row])) for section, base in places for row in rows_in.get(section, ())}


def _first_by_key(columns: LinkColumns, lost: I64) -> dict[int, int]:
    """Return the global functions without a symbol by key; of copies the first."""
    found = columns.definitions
    rows = lost[~found.is_local[lost]]
    keys, first = np.unique(found.key[rows], return_index=True)
    return dict(zip(keys.tolist(), rows[first].tolist(), strict=True))


def _reported(columns: LinkColumns, definition: int) -> ReportedFunction:
    found = columns.definitions
    symbols = columns.objects[int(columns.sections.object_idx[found.section[definition]])].symbols
    symbol = int(found.symbol[definition])
    return ReportedFunction(symbols.name(symbol), symbols.file_name(symbol))


def _unknown(image: Image, placement: Placement) -> list[str]:
    """Return what the image has or uses, and the objects do not have."""
    columns = placement.columns
    names = find_missing(image, columns.objects, columns.definitions.name_hash)
    code = [(section.vaddr, section.vaddr + section.size_bytes) for section in executable_sections(image)]
    in_code = (key for key, vaddr in placement.globals if any(low <= vaddr < high for low, high in code))
    used = np.fromiter(in_code, np.uint64)
    used = used[~is_in(used, columns.definitions.key)]
    for object_file, keys in zip(columns.objects, columns.keys, strict=True):
        calls = object_file.symbols.names(np.flatnonzero(is_in(keys, used)).tolist()) if len(used) else ()
        # with --wrap=f the linker makes f of __real_f, and what f is must be there as well
        names += (name for name in calls if not is_unfolded(name) and not name.startswith(REAL))
    return sorted(set(names))
