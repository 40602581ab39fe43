"""The names of the functions of an image, by which `icf disasm` finds them.

Demangling every symbol of a large image takes seconds. So the mangled names of an ELF image are searched for those that
spell an identifier: `post` is `4post` in each. A PDB has fewer names at hand at once: all are tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np

from icf.elf.image import Image
from icf.pdb.functions import find_bodies, read_procedures
from icf.pe.classes import code_ranges
from icf.pe.image import PeImage

Named = tuple[str, int]  # linkage name and address


class FunctionNames(Protocol):
    """The functions of an image."""

    def starts(self) -> list[int]:
        """Return where they begin."""

    def called(self, name: str) -> Iterator[Named]:
        """Yield those with exactly that linkage name."""

    def spelling(self, identifier: str) -> Iterator[Named]:
        """Yield those whose linkage name may spell an identifier."""

    def all(self) -> Iterator[Named]:
        """Yield all."""


class ElfNames:
    """The functions in the symbol table of an ELF image."""

    def __init__(self, image: Image) -> None:
        self._symbols = image.symbols

    def starts(self) -> list[int]:
        values: list[int] = self._symbols.value[self._symbols.functions].tolist()
        return values

    def called(self, name: str) -> Iterator[Named]:
        symbols = self._symbols
        pattern = re.compile(re.escape(name.encode("utf-8", "surrogateescape")) + b"\0")
        found = [start + match.start() for start, text in symbols.strings.pieces() for match in pattern.finditer(text)]
        for row in symbols.functions[np.isin(symbols.name_offset[symbols.functions], found)].tolist():
            yield name, int(symbols.value[row])

    def spelling(self, identifier: str) -> Iterator[Named]:
        symbols, spelled = self._symbols, f"{len(identifier)}{identifier}"
        rows = symbols.functions[np.argsort(symbols.name_offset[symbols.functions], kind="stable")]
        offsets = symbols.name_offset[rows]
        pattern = re.compile(rb"[^\0]*" + re.escape(spelled.encode()) + rb"[^\0]*")
        for start, text in symbols.strings.pieces():
            for match in pattern.finditer(text):
                first, last = np.searchsorted(offsets, start + np.array(match.span())).tolist()
                for row in rows[first:last].tolist():
                    yield symbols.name(row), int(symbols.value[row])

    def all(self) -> Iterator[Named]:
        for row in self._symbols.functions.tolist():
            yield self._symbols.name(row), int(self._symbols.value[row])


class PeNames:
    """The functions in the PDB of a PE image, or its symbols; if it has neither, those that it exports."""

    def __init__(self, image: PeImage) -> None:
        self._image = image

    def starts(self) -> list[int]:
        return sorted({vaddr for _, vaddr in self._named})

    def called(self, name: str) -> Iterator[Named]:
        return (each for each in self._named if each[0] == name)

    def spelling(self, identifier: str) -> Iterator[Named]:
        return (each for each in self._named if identifier in each[0])

    def all(self) -> Iterator[Named]:
        return iter(self._named)

    @cached_property
    def _named(self) -> list[Named]:
        image = self._image
        if image.dwarf is not None:
            symbols = image.dwarf.symbols
            values = symbols.value[symbols.functions].tolist()
            return list(zip(symbols.names(symbols.functions), values, strict=True))
        if image.pdb is None:
            return [(each.name, image.base + each.rva) for each in image.exports]
        return [
            (name, image.base + body.start)
            for body in find_bodies(image.pdb, read_procedures(image.pdb), code_ranges(image))
            for member in body.members
            for name in (member.name, *member.aliases)
        ]
