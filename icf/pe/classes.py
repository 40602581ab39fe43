"""The fold classes of a PE image, from its PDB."""

from __future__ import annotations

from icf.aliases import is_cold_part
from icf.model import ClassFlag, DieOffset, FoldClass, Member, Vaddr
from icf.pdb.functions import PdbBody, find_bodies, is_complete, read_procedures
from icf.pe.image import PeImage


def code_ranges(image: PeImage) -> list[tuple[int, int]]:
    """Return the RVAs where sections with code begin and end."""
    return [(each.vaddr - image.base, each.vaddr - image.base + each.size_bytes) for each in image.code_sections]


def fold_class(image: PeImage, body: PdbBody, *, complete: bool) -> FoldClass:
    """Return a body as a class; numbers of records in the PDB are in the place of DIEs."""
    members = tuple(Member(each.name, DieOffset(each.number), each.flags, each.aliases) for each in body.members)
    flags = ClassFlag.MEMBERS_COMPLETE if complete else ClassFlag.NONE
    if is_cold_part(body.members[0].name) and all(is_cold_part(each.name) for each in body.members):
        flags |= ClassFlag.FRAGMENT
    return FoldClass(Vaddr(image.base + body.start), body.end - body.start, members, flags)


def merged_classes(image: PeImage) -> list[FoldClass]:
    """Return the classes of merged functions by address; none without a PDB. Raise FormatError if it is damaged."""
    if image.pdb is None:
        return []
    bodies, complete = find_bodies(image.pdb, read_procedures(image.pdb), code_ranges(image)), is_complete(image.pdb)
    return [fold_class(image, body, complete=complete) for body in bodies if len(body.members) > 1]
