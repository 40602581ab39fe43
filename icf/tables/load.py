"""The tables of one image together: `.debug_icf`, `.debug_dcall`, `.debug_vcall`, and names for their DIEs.

A member's name is in `.debug_icf`. In a table of another tool, a callee that is not merged but tail-calls into a merged
body has its name in `.debug_info` only; that is opened for the first such DIE.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from icf.columns import U64
from icf.elf.image import Image
from icf.errors import IcfError
from icf.image import AnyImage
from icf.model import ClassFlag
from icf.sets import distinct
from icf.tables.dcall import DirectCalls, parse_dcall
from icf.tables.icftable import IcfTable, parse_icf
from icf.tables.place import SECTIONS, are_stale, file_with_tables
from icf.tables.vcall import VirtualCalls, parse_vcall


@dataclass(slots=True)
class Tables:
    """The tables of an image; a table that the image does not have is empty.

    Attributes:
        image: the image, or its debug file, that has the tables.
        icf: `.debug_icf`: fold classes, tail calls, vtables, evidence.
        direct: `.debug_dcall`: a row for each direct call, with caller and callee.
        virtual: `.debug_vcall`: a row for each virtual call, with its slot.
        present: names of the sections that the image has; empty if they are about other code.
    """

    image: AnyImage
    icf: IcfTable
    direct: DirectCalls
    virtual: VirtualCalls
    present: tuple[str, ...]  # of SECTIONS, those that the image has; none where they are about other code
    _name_of_die: dict[int, str] = field(default_factory=dict)

    def die_name(self, die: int) -> str:
        """Return the linkage name of the function of a DIE.

        Args:
            die: offset in `.debug_info`.

        Returns:
            The name; "" if neither the tables nor the debug information has one.
        """
        if not self._name_of_die:
            self._name_of_die = self._read_names()
        return self._name_of_die.get(die, "")

    def check_evidence(self) -> str:
        """Check that the tables have one evidence byte for each record.

        Returns:
            What is wrong; "" if nothing is.
        """
        for name, evidence, calls in (
            (".debug_dcall", self.icf.evidence, self.direct),
            (".debug_vcall", self.icf.vcall_evidence, self.virtual),
        ):
            if ".debug_icf" in self.present and len(evidence) != len(calls):
                return f".debug_icf has evidence for {len(evidence)} records, {name} has {len(calls)}"
        return ""

    def _read_names(self) -> dict[int, str]:
        names: dict[int, str] = {0: ""}
        icf = self.icf
        part = np.repeat(icf.class_flags & np.uint8(ClassFlag.FRAGMENT), np.diff(icf.member_start).astype(np.intp))
        dies = icf.member_die.tolist()
        for row in np.argsort(part, kind="stable").tolist():  # a cold part shares the DIE of its function
            if dies[row] not in names:
                names[dies[row]] = icf.member_name(row)
        used = distinct(np.concatenate([self.direct.callee_die, self.direct.caller_die]))
        unnamed = np.array([die for die in used.tolist() if die not in names], np.uint64)
        if len(unnamed) and self.image.format == "ELF":
            names.update(_names_from_debug_info(self.image, unnamed))
        return names


def load_tables(image: AnyImage) -> Tables:
    """Parse the call-site tables of an image, of its debug file, or next to its PDB.

    Args:
        image: an open image.

    Returns:
        The tables; those that are about other code count as absent. Of a PE image without a side table they are the
        fold classes of its PDB.

    Raises:
        FormatError: a table breaks its format.
    """
    if image.format == "PE":
        from icf.tables.of_pe import parse_side_table

        return Tables(image, *parse_side_table(image))
    file = file_with_tables(image)
    if are_stale(image):
        return Tables(image, IcfTable(), DirectCalls.of(()), VirtualCalls.of(()), ())
    return Tables(
        image,
        parse_icf(file.contents(".debug_icf"), file.path, image.debug.streamed(".debug_str")),
        parse_dcall(file.contents(".debug_dcall"), file.path),
        parse_vcall(file.contents(".debug_vcall"), file.path),
        tuple(name for name in SECTIONS if file.section(name) is not None),
    )


def _names_from_debug_info(image: Image, dies: U64) -> dict[int, str]:
    from icf.dwarf.clone_names import clone_names
    from icf.dwarf.dies import resolve
    from icf.dwarf.opening import open_debug

    try:
        debug = open_debug(image, restore=False)
        identity = resolve(debug, dies)
        references = np.where(identity.linkage_name != 0, identity.linkage_name, identity.name)
        clones = clone_names(debug, references, identity.root)
    except IcfError:  # the tables can be read without it
        return {}
    texts = (debug.string(reference).decode("utf-8", "surrogateescape") for reference in references.tolist())
    return {die: clones.get(row) or text for row, (die, text) in enumerate(zip(dies.tolist(), texts, strict=True))}
