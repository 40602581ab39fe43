"""The functions of a PE image by its PDB, for `linkpass.pe.members`.

A static function is looked up in the module that the linker made of its object: by name and parameters of its record,
if just one there has them. The module has the path of the object; of an object that was moved since it is the one
module with that file name.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable

from icf.microsoft_names import declared_by, parameters_alike, spelled_alike
from icf.model import MemberFlag
from icf.pdb import columns as col
from icf.pdb.file import Pdb
from icf.pdb.functions import find_bodies, is_complete, is_of_linker, read_procedures
from icf.pe.classes import code_ranges
from icf.pe.image import PeImage
from linkpass.pe.inputs import Input
from linkpass.pe.members import Function, Members

_Key = tuple[str, str]  # file and name of a module
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")  # C:\ or \\server


def members_of_pdb(image: PeImage, pdb: Pdb) -> Members:
    """Return all functions of an image; raise FormatError if its PDB is damaged."""
    procedures = read_procedures(pdb)
    bodies = find_bodies(pdb, procedures, code_ranges(image))
    module_of: list[int] = procedures.module.tolist()
    keys = [_key(each.archive or each.name, each.name) for each in pdb.dbi.modules]
    external: dict[str, set[Function]] = {}
    local: dict[_Key, dict[str, set[Function]]] = {}
    for row, body in enumerate(bodies):
        for idx, member in enumerate(body.members):
            function = Function(row, idx)
            if not member.flags & MemberFlag.NAMELESS:
                for name in (member.name, *member.aliases):
                    external.setdefault(name, set()).add(function)
            elif member.flags & MemberFlag.LOCAL:
                names = local.setdefault(keys[module_of[member.procedure]], {})
                name = spelled_alike(member.name)
                parameters = pdb.types.parameters(int(procedures.columns[member.procedure, col.P_TYPE]))
                names.setdefault(name, set()).add(function)
                if parameters is not None:
                    names.setdefault(f"{name}({parameters_alike(','.join(parameters))})", set()).add(function)
    return Members(bodies, is_complete(pdb), external, _PdbStatics(pdb, keys, local))


class _PdbStatics:
    """The static functions, by the module of their object."""

    lists_objects = True

    def __init__(self, pdb: Pdb, keys: list[_Key], local: dict[_Key, dict[str, set[Function]]]) -> None:
        self._local = local
        self._asked: tuple[_Key, dict[str, set[Function]]] = ("", ""), {}  # an object asks many times
        self._names = {_base_name(each.name) for each in pdb.dbi.modules}
        self._objects = [key for key, each in zip(keys, pdb.dbi.modules, strict=True) if not is_of_linker(each)]
        self._moved: dict[_Key, set[_Key]] = {}  # modules by the last parts of their paths
        for key in keys:
            self._moved.setdefault(_last_parts(key), set()).add(key)

    def named(self, each: Input, name: str) -> frozenset[Function]:
        """Return the static functions of an object with that linkage name."""
        declared = declared_by(name) if name.startswith("?") else None
        names = self._names_of(each)
        spelled = spelled_alike(declared.name if declared else name)
        found = names.get(spelled, set())
        if len(found) > 1 and declared is not None:  # overloads
            found = names.get(f"{spelled}({parameters_alike(declared.parameters)})") or found
        return frozenset(found)

    def all_of(self, each: Input) -> set[Function]:
        """Return all static functions of an object."""
        return set().union(*self._names_of(each).values())

    def _names_of(self, each: Input) -> dict[str, set[Function]]:
        """Return the static functions of an object by name; of one that was moved, those of all modules it may be."""
        asked = each.file, each.name
        if self._asked[0] != asked:
            key = _key(*asked)
            alike = self._moved.get(_last_parts(key), set())
            found: dict[str, set[Function]] = {}
            for module in {key} if key in alike else alike:
                for name, functions in self._local.get(module, {}).items():
                    found.setdefault(name, set()).update(functions)
            self._asked = asked, found
        return self._asked[1]

    def may_be_linked(self, each: Input) -> bool:
        """Return whether an object is none that an archive has and no module of the PDB is named after."""
        return each.name == each.file or _base_name(each.name) in self._names

    def unread(self, inputs: Iterable[tuple[str, str]]) -> list[str]:
        """Return the paths of the objects of the link that are not among `inputs`, which are files and names."""
        keys = {_key(file, name) for file, name in inputs}
        moved = Counter(_last_parts(key) for key in keys.difference(self._objects))
        left = [key for key in self._objects if key not in keys]
        wanted = Counter(map(_last_parts, left))
        return [file for file, _ in (key for key in left if moved[_last_parts(key)] < wanted[_last_parts(key)])]


def _base_name(path: str) -> str:
    return re.split(r"[\\/]", path)[-1]


def _last_parts(key: _Key) -> _Key:
    return _base_name(key[0]), key[1]


def _key(file: str, name: str) -> _Key:
    """Return what identifies a module; a name that is a path is that of a plain object.

    Where a link ran on Windows, its paths say nothing about files here.
    """
    if _WINDOWS.match(file):
        return (file, "") if name == file else (file, name)
    file = os.path.realpath(file)
    is_plain = os.path.isabs(name) and os.path.realpath(name) == file
    return (file, "") if is_plain else (file, name)
