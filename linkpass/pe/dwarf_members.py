"""The functions of a PE image by its DWARF and its symbols, for `linkpass.pe.members`.

A static function is looked up by the source file of its object, which clang and gcc write into a `.file` symbol:

    object   .file "left.cpp"   helper        image   unit "left.cpp", a DIE of `helper`

That holds if exactly one unit of the image has this file: units stay in an image even if none of their functions does.
The debug information of the object must have the path and the directory of this unit: another file of that name, which
the link did not take from its archive, has others. Split DWARF leaves a unit without its file in the image, which may
be any: then no static function is known by its object. Those without debug information are not either, and their calls
have no records. Which objects the link had is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from icf.coff.objectfile import CoffObject
from icf.elf.image import Image
from icf.folds.of_dwarf import Unit, describe
from icf.model import ClassFlag, DieOffset, MemberFlag
from icf.pdb.functions import PdbBody, PdbMember
from icf.pe.dwarf import INFO
from icf.pe.image import PeImage
from linkpass.pe.inputs import Input
from linkpass.pe.members import Function, Members

_DEBUG = (INFO, ".debug_str", ".debug_line_str")
_NO_DIE = 1 << 40  # numbers of members without a DIE begin here


def members_of_dwarf(image: PeImage, dwarf: Image) -> Members:
    """Return all functions of an image; raise FormatError if its symbols are damaged."""
    found = describe(dwarf)
    bodies: list[PdbBody] = []
    external: dict[str, set[Function]] = {}
    static = _DwarfStatics(found.units)
    count = 0
    for row, (each, files) in enumerate(zip(found.classes, found.files, strict=True)):
        members = []
        for idx, (member, own) in enumerate(zip(each.members, files, strict=True)):
            function, flags, die = Function(row, idx), member.flags, member.die
            if not die:
                count += 1
                flags, die = flags | MemberFlag.SYNTHETIC, DieOffset(_NO_DIE + count)
            members.append(PdbMember(member.name, die, flags, member.aliases))
            if flags & MemberFlag.NAMELESS:
                continue
            for name in (member.name, *member.aliases):
                if flags & MemberFlag.LOCAL:
                    static.add(function, name, own)
                else:
                    external.setdefault(name, set()).add(function)
        start = each.vaddr - image.base
        bodies.append(PdbBody(start, start + each.size_bytes, tuple(members)))
    complete = all(each.flags & ClassFlag.MEMBERS_COMPLETE for each in found.classes)
    return Members(bodies, complete, external, static)


class _DwarfStatics:
    """The static functions, by source file and name."""

    lists_objects = False

    def __init__(self, units: list[Unit]) -> None:
        self._units: dict[str, list[Unit]] = {}
        for unit in units:
            self._units.setdefault(_base_name(unit.file), []).append(unit)
        self._by_file: dict[str, dict[str, set[Function]]] = {}
        self._all: set[Function] = set()
        self._asked: tuple[CoffObject | None, str] = None, ""

    def add(self, function: Function, name: str, files: frozenset[str]) -> None:
        """Add a function, and the files of the units that describe it."""
        self._all.add(function)
        for file in files:
            self._by_file.setdefault(_base_name(file), {}).setdefault(name, set()).add(function)

    def named(self, each: Input, name: str) -> frozenset[Function]:
        """Return the static functions of an object with that linkage name."""
        file = self._file_of(each)
        return frozenset(self._by_file.get(file, {}).get(name, ())) if file else frozenset()

    def all_of(self, each: Input) -> set[Function]:
        """Return all static functions of an object; of one whose file is not known, those of the image."""
        file = self._file_of(each)
        return set().union(*self._by_file.get(file, {}).values()) if file else self._all

    def may_be_linked(self, each: Input) -> bool:
        """Return True: nothing shows that an object was not linked."""
        return True

    def unread(self, inputs: Iterable[tuple[str, str]]) -> list[str]:
        """Return no paths: they are not known."""
        return []

    def _file_of(self, each: Input) -> str:
        """Return the source file of an object, if it is that of the one unit of this name; else an empty text."""
        if self._asked[0] is not each.object:
            files = {_base_name(file) for file in each.object.source_files()}
            file = files.pop() if len(files) == 1 else ""
            units = self._units.get(file, [])
            is_known = len(units) == 1 and "" not in self._units and _may_be_of(each.object, units[0])
            self._asked = each.object, file if is_known else ""
        return self._asked[1]


def _may_be_of(obj: CoffObject, unit: Unit) -> bool:
    """Return whether an object may have a unit: its debug information has the texts of the unit."""
    places = {name: at for at, section in enumerate(obj.sections) if (name := section.name) in _DEBUG}
    if INFO not in places or len(places) < sum(section.name in _DEBUG for section in obj.sections):
        return False
    whole = bytes(obj.contents(places.pop(INFO)))  # texts in it stand between other attributes
    texts = b"".join(b"\0" + obj.contents(at) for at in places.values())
    wanted = [text + b"\0" for text in (unit.path, unit.directory) if text]
    return all(b"\0" + text in texts or text in whole for text in wanted)


def _base_name(path: str) -> str:
    return re.split(r"[\\/]", path)[-1]
