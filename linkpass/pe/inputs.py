"""The objects of a link for Windows, one after the other: files, members of archives, words of response files.

The linker records in the PDB the path of each object, or the path of its archive and the name of the member; `Input`
has the same two, so that an object is found among the modules of the PDB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from icf.coff.objectfile import AMD64, ARM64, CoffObject, is_coff_object, is_import, is_without_code
from icf.elf.archive import Archive, is_archive, map_file
from icf.elf.types import Machine
from icf.linkinputs.responsefile import expand

_MACHINES = {Machine.X86_64: AMD64, Machine.AARCH64: ARM64}


class Given(Enum):
    """Which inputs of a link were given."""

    SOME = auto()
    BUT_LIBRARIES = auto()  # all, but for libraries that objects ask for
    ALL = auto()


class Input(NamedTuple):
    """An object; of one in an archive `name` is that of the member."""

    object: CoffObject
    file: str  # absolute path of the object or archive
    name: str  # the same, or the member


class Inputs:
    """The objects of some paths; once all were read, `without_code` has those of /GL, `skipped` the other inputs.

    `asks_for_more`: whether an object asks the linker for libraries.
    """

    def __init__(self, paths: Sequence[str], machine: Machine) -> None:
        self._paths, self._machine = expand(paths), _MACHINES[machine]
        self.without_code: list[str] = []
        self.skipped: list[str] = []
        self.asks_for_more = False

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
            found = Input(CoffObject(buffer, shown), file, name)
            if found.object.machine != self._machine:
                self.skipped.append(shown)
                return
            self.asks_for_more |= found.object.asks_for_libraries
            yield found
        elif is_without_code(buffer):
            self.without_code.append(shown)
        elif not is_import(buffer):
            self.skipped.append(shown)
