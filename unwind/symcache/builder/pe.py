"""Build a symcache from a PE image: from its PDB, or from the DWARF in the image."""

from __future__ import annotations

from collections.abc import Collection

from icf.folds.of_dwarf import find_classes
from icf.pe.image import PeImage
from icf.pe.sidetable import side_table_path
from icf.tables.icftable import parse_icf
from icf.tables.of_pe import find_side_table
from unwind.symcache.builder import build, pdb
from unwind.symcache.format.container import SectionBytes


def build_pe_sections(image: PeImage, wanted: Collection[int] | None = None) -> dict[str, SectionBytes]:
    """Return the sections that `SymCache` reads; with `wanted` only the bodies that hold these addresses."""
    if image.dwarf is None:
        return pdb.build_sections(image, wanted)
    side = find_side_table(image)
    classes = find_classes(image.dwarf) if side is None else parse_icf(side.icf, side_table_path(image), b"").classes
    return build.build_sections(image.dwarf, wanted, list(classes))
