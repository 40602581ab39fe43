"""What the objects of a link tell of the functions at each address: as much as a linker's report, and more exactly.

A report names sections; here a function has its symbol and, if it is local, its source file. That is complete if the
objects are: a function of an object that is not there could have been folded into any body, without a trace. So what
the image has and the objects do not have is looked for, too. Only the C runtime may be unknown: it folds with nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.code.branches import executable_sections
from icf.elf.image import Image
from icf.errors import IcfError
from icf.folds.members import Told
from icf.folds.report import FoldedSections
from icf.folds.reported import Reported
from icf.folds.tombstoned import is_unfolded
from icf.strings import hash_table
from linkpass.content import possible_places
from linkpass.link_columns import NOWHERE, LinkColumns, is_in
from linkpass.objects import LinkObjects
from linkpass.placement import Placement


class PlacedFunctions(NamedTuple):
    """The functions that the symbols of an image do not tell of, and those that its objects do not tell of."""

    told: dict[int, list[Told]]  # address -> functions that have no symbol there, in link order
    unknown: list[str]  # functions of the image that are in none of the objects; sorted


def tell(
    image: Image, report: list[FoldedSections] | None, objects: LinkObjects | None
) -> Reported | list[FoldedSections] | None:
    """What the objects say of an image that gold or mold has linked; the report if they are not all there.

    Raises IcfError where there is neither and symbols are not enough: mold drops those of functions of every kind.
    """
    lack, hint = "its image alone is not enough", "give the objects of the link with --objects, or"
    if objects is not None and objects.objects:
        placed = place_functions(image, objects)
        if not placed.unknown:
            return Reported(placed.told, given=True)
        lack = f"{len(placed.unknown)} functions are in none of the objects, such as {placed.unknown[0]}"
        hint = "give all objects and archives of the link, or"
    if report is None and image.linker == "mold":
        raise IcfError(
            f"{image.path}: mold leaves no trace of many functions that it folds, and {lack}",
            hint=f"{hint} link with -Wl,--print-icf-sections and give what it prints with --icf-report",
        )
    return report


def place_functions(image: Image, objects: LinkObjects) -> PlacedFunctions:
    """Find the functions of the objects in the image."""
    columns = LinkColumns(image, objects.objects)
    placement = Placement(image, columns)
    found = columns.definitions
    is_lost = found.is_function & columns.prevails[found.section] & ~columns.has_symbol
    rows = np.flatnonzero(is_lost & (placement.base[found.section] != NOWHERE))
    told: dict[int, list[Told]] = {}
    for row, vaddr in zip(
        rows.tolist(), (placement.base[found.section[rows]] + found.value[rows]).tolist(), strict=True
    ):
        told.setdefault(vaddr, []).append(_told(columns, row))
    for section, base in possible_places(image, placement, placement.missing()):
        for row in np.flatnonzero(is_lost & (found.section == section)).tolist():
            told.setdefault(base + int(found.value[row]), []).append(_told(columns, row))
    return PlacedFunctions(told, _unknown(image, placement))


def _told(columns: LinkColumns, definition: int) -> Told:
    found = columns.definitions
    symbols = columns.objects[int(columns.sections.object_idx[found.section[definition]])].symbols
    symbol = int(found.symbol[definition])
    return Told(symbols.name(symbol), symbols.file_name(symbol))


def _unknown(image: Image, placement: Placement) -> list[str]:
    """Functions that the image has or uses, and the objects do not have."""
    columns, symbols = placement.columns, image.symbols
    stubs = [section.index for section in image.sections if section.name.startswith((".plt", ".iplt"))]
    rows = symbols.functions[~np.isin(symbols.shndx[symbols.functions], stubs)]  # foo$plt
    hashes = hash_table(symbols.strtab, symbols.name_offset[rows])
    names = symbols.names(rows[~is_in(hashes, np.unique(columns.definitions.name_hash))].tolist())
    code = [(section.vaddr, section.vaddr + section.size_bytes) for section in executable_sections(image)]
    used = [key for vaddr, key in placement.undefined.items() if any(low <= vaddr < high for low, high in code)]
    for object_file, keys in zip(columns.objects, columns.keys, strict=True):
        names += object_file.symbols.names(np.flatnonzero(np.isin(keys, used)).tolist()) if used else ()
    return sorted({name for name in names if not is_unfolded(name)})
