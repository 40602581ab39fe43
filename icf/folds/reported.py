"""The linker's report of folded sections, brought to addresses.

With `-ffunction-sections` a section is named after its function, so a report names the members of each class
even where the image has lost their symbols (mold). It also settles what is no fold: symbols that share an
address of which the report says nothing are aliases of one function. Local functions may have namesakes in
other files; where the kept one cannot be found by name alone its class is left to the other witnesses.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from icf.elf.image import Image
from icf.folds.aliases import base_name, is_cold_part
from icf.folds.functions import Bodies
from icf.folds.members import FoldMember
from icf.folds.report import FoldedSections, SectionRef
from icf.strings import hash_names, hash_table

_COLD_SECTIONS = ".text.unlikely."  # of cold parts, and of functions that are cold as a whole


class Reported:
    """What a report says about the addresses of one image."""

    def __init__(self, image: Image, bodies: Bodies, report: Iterable[FoldedSections] | None) -> None:
        classes = [folded for folded in report or () if folded.kept.has_function_name]
        self.given = report is not None
        self._names_at: dict[int, list[str]] = {}  # the first name is the kept one
        self._mentioned: set[str] = set()  # without what compilers append
        if classes:
            self._locate(image, bodies, classes)

    @property
    def vaddrs(self) -> NDArray[np.uint64]:
        """Addresses of the reported classes."""
        return np.array(sorted(self._names_at), np.uint64)

    def _locate(self, image: Image, bodies: Bodies, classes: list[FoldedSections]) -> None:
        wanted = {name for folded in classes for name in _symbols_of(folded.kept)}
        by_name = _addresses_of(image, bodies, wanted)
        for folded in classes:
            refs = [ref for ref in (folded.kept, *folded.removed) if ref.has_function_name]
            self._mentioned.update(base_name(ref.function_name) for ref in refs)
            choices = [(name, by_name[name]) for name in _symbols_of(folded.kept) if name in by_name]
            if not choices or len(choices[0][1]) != 1:
                continue  # not to be told from its namesakes, or its symbol is gone
            cold = is_cold_part(choices[0][0])
            if folded.kept.section.startswith(_COLD_SECTIONS) and not cold:
                continue  # a cold part whose symbol is gone, or a function that is cold as a whole: no telling
            names = self._names_at.setdefault(next(iter(choices[0][1])), [])
            names += [ref.function_name + (".cold" if cold else "") for ref in refs]

    def excludes(self, members: list[FoldMember]) -> bool:
        """Whether the linker said nothing of any of these functions: then it did not fold them."""
        names = {base_name(name) for member in members for name in (member.name, *member.aliases)}
        return self.given and not names & self._mentioned

    def names_at(self, vaddr: int) -> list[str]:
        """Functions of the class at the address, the kept one first; none if the report has no class there."""
        return self._names_at.get(vaddr, [])

    def mark_kept(self, vaddr: int, members: list[FoldMember]) -> None:
        """Say which of the members was kept, if the report does."""
        kept = [member for member in members for name in self.names_at(vaddr)[:1] if member.is_named(name)]
        if len(kept) == 1:
            for member in members:
                member.kept = member is kept[0]


def _symbols_of(ref: SectionRef) -> tuple[str, ...]:
    """The symbols that the code of a section may have, the likeliest first."""
    name = ref.function_name
    return (f"{name}.cold", name) if ref.section.startswith(_COLD_SECTIONS) else (name,)


def _addresses_of(image: Image, bodies: Bodies, names: set[str]) -> dict[str, set[int]]:
    """Addresses of the function symbols with these names."""
    symbols = image.symbols
    rows = bodies.symbol_rows
    hashes = hash_table(symbols.strtab, symbols.name_offset[rows])
    wanted = hash_names(sorted(names))
    found: dict[str, set[int]] = {}
    for at in np.flatnonzero(np.isin(hashes, wanted)).tolist():
        found.setdefault(symbols.name(int(rows[at])), set()).add(int(bodies.symbol_value[at]))
    return found
