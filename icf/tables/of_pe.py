"""The tables of a PE image, which are in a file next to its PDB (`icf.pe.sidetable`)."""

from __future__ import annotations

from icf.pe.classes import merged_classes
from icf.pe.image import PeImage
from icf.pe.sidetable import SideTable, read_side_table, side_table_path
from icf.tables.dcall import DirectCalls, parse_dcall
from icf.tables.icftable import IcfTable, parse_icf, parse_icf_header
from icf.tables.place import SECTIONS, warn_stale
from icf.tables.vcall import VirtualCalls, parse_vcall


def find_side_table(image: PeImage) -> SideTable | None:
    """Return the side table of a PE image; None if there is none, or one about other code, which a warning reports."""
    side = read_side_table(image)
    if side is None:
        return None
    header = parse_icf_header(side.icf, side_table_path(image))
    if header is not None and header.code_digest in (b"", image.code_digest):
        return side
    warn_stale(image.path)
    return None


def parse_side_table(image: PeImage) -> tuple[IcfTable, DirectCalls, VirtualCalls, tuple[str, ...]]:
    """Return the tables of a PE image and the names of those that it has.

    Without a side table there are the fold classes of its PDB. Raise FormatError if a table breaks its format.
    """
    side, path = find_side_table(image), side_table_path(image)
    if side is not None:
        icf = parse_icf(side.icf, path, b"")
        return icf, parse_dcall(side.dcall, path), parse_vcall(side.vcall, path), SECTIONS
    classes = IcfTable(merged_classes(image)) if image.pdb is not None else IcfTable()
    return classes, DirectCalls.of(()), VirtualCalls.of(()), SECTIONS[:1] if image.pdb is not None else ()
