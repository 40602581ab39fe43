"""The functions of the objects that a program was linked from, found by the names the program has.

A function in an image is looked up in the objects by its symbol, a local one also by its source file. A
function with external linkage may be in many objects (COMDAT); the linker took the first. It is checked
all the same: the bytes of an object's function must be those of the body in the image, apart from
the places that a relocation fills in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from icf.elf.image import Image
from icf.elf.objectfile import Entries, ObjectFile
from icf.elf.types import Machine
from icf.strings import hash_names, hash_table

_STB_LOCAL = 0
# bytes before and after the start of a relocated field that a linker may rewrite: relaxed GOT loads turn into
# other instructions, thread-local sequences into shorter ones
_FIELD, _GOT_FIELD, _TLS_FIELD = (0, 4), (3, 4), (8, 12)
_GOT_TYPES = frozenset({9, 41, 42})
_TLS_TYPES = frozenset({19, 20, 21, 22, 23, 34, 35, 36, 44, 45, 46})


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A function in an object."""

    object_file: ObjectFile
    name: str
    section: int
    offset: int  # in its section
    size_bytes: int
    is_local: bool

    def relocations(self) -> Entries:
        """Those inside of the function, ascending."""
        entries = self.object_file.relocations_of(self.section)
        entries = entries[np.argsort(entries["offset"], kind="stable")]
        first, last = np.searchsorted(entries["offset"], [self.offset, self.offset + self.size_bytes])
        return entries[first:last]


class LinkObjects:
    """The objects of a link, in its order."""

    def __init__(self, objects: Iterable[ObjectFile]) -> None:
        self._objects = list(objects)

    def define(self, names: set[str]) -> dict[str, list[Definition]]:
        """All functions of these names, in link order."""
        wanted = hash_names(sorted(names))
        found: dict[str, list[Definition]] = {}
        for object_file in self._objects:
            symbols, rows = object_file.symbols, object_file.functions
            if not len(rows):
                continue
            hashes = hash_table(symbols.strtab, symbols.name_offset[rows])
            for row in rows[np.isin(hashes, wanted)].tolist():
                name = symbols.name(row)
                if name in names:
                    found.setdefault(name, []).append(
                        Definition(
                            object_file,
                            name,
                            int(symbols.shndx[row]),
                            int(symbols.value[row]),
                            int(symbols.size_bytes[row]),
                            bool(symbols.bind[row] == _STB_LOCAL),
                        )
                    )
        return found


def functions_at(object_file: ObjectFile, section: int, offset: int) -> list[str]:
    """Names of the functions that start at a place of an object."""
    symbols, rows = object_file.symbols, object_file.functions
    here = rows[(symbols.shndx[rows] == section) & (symbols.value[rows] == offset)]
    return symbols.names(here.tolist())


def has_body(image: Image, vaddr: int, definition: Definition) -> bool:
    """Whether the body at `vaddr` is this function's, apart from what relocations fill in."""
    size_bytes = definition.size_bytes
    code = definition.object_file.contents(definition.section)[definition.offset : definition.offset + size_bytes]
    body = image.read(vaddr, size_bytes)
    if not size_bytes or len(code) != size_bytes or len(body) != size_bytes:
        return False
    differs = np.frombuffer(code, np.uint8) != np.frombuffer(body, np.uint8)
    if not differs.any():
        return True
    x86 = image.machine is Machine.X86_64
    for entry in definition.relocations():
        kind = int(entry["type"])
        before, after = _FIELD
        if x86:
            before, after = _GOT_FIELD if kind in _GOT_TYPES else _TLS_FIELD if kind in _TLS_TYPES else _FIELD
            after = 8 if kind in (1, 24, 25) else after
        at = int(entry["offset"]) - definition.offset
        differs[max(at - before, 0) : at + after] = False
    return not bool(differs.any())


def definitions_of(
    image: Image, found: dict[str, list[Definition]], vaddr: int, names: Iterable[str], files: frozenset[str]
) -> Iterator[Definition]:
    """The definitions of one function of the image: its names, the source files of a local one, its bytes."""
    for name in names:
        for definition in found.get(name, ()):
            source = definition.object_file.source_file
            if files and definition.is_local and source and source not in files:
                continue
            if files and not definition.is_local and image.linker != "mold":  # which makes global symbols local
                continue
            if has_body(image, vaddr, definition):
                yield definition
                if not definition.is_local:
                    break  # the linker took one of them, and they are alike
