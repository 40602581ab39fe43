"""The objects of a link for Windows, one after the other: files, members of archives, words of response files.

The linker records in the PDB the path of each object, or the path of its archive and the name of the member; `Input`
has the same two, so that an object is found among the modules of the PDB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from icf.coff.objectfile import CoffObject, is_coff_object
from icf.elf.archive import Archive, is_archive, map_file
from icf.linkinputs.responsefile import expand


class Input(NamedTuple):
    """An object; of one in an archive `name` is that of the member."""

    object: CoffObject
    file: str  # absolute path of the object or archive
    name: str  # the same, or the member


class Inputs:
    """The objects of some paths; `skipped` has the other inputs, once all were read."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = expand(paths)
        self.skipped: list[str] = []

    def __iter__(self) -> Iterator[Input]:
        for path in self._paths:
            buffer = map_file(path, may_be_pipe=True)
            file = os.path.abspath(path)
            if is_archive(buffer):
                archive = Archive(buffer, path)
                for member in archive:
                    yield from self._object(archive.contents(member), file, archive.name(member))
            else:
                yield from self._object(buffer, file, file)

    def _object(self, buffer: memoryview, file: str, name: str) -> Iterator[Input]:
        shown = file if name == file else f"{file}({name})"
        if is_coff_object(buffer):
            yield Input(CoffObject(buffer, shown), file, name)
        elif bytes(buffer[:4]) != b"\0\0\xff\xff":  # what an import library has for each function
            self.skipped.append(shown)
