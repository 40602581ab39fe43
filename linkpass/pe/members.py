"""The functions of a linked PE image, and which of them a symbol of an object means.

A name with external linkage means the one member that has it. A static function is looked up in the module that the
linker made of its object: by name and parameters of its record, if just one there has them. The module has the path of
the object; of an object that was moved since it is the one module with that file name.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from icf.coff.objectfile import CoffObject
from icf.microsoft_names import declared_by, parameters_alike, spelled_alike
from icf.model import MemberFlag
from icf.pdb import columns as col
from icf.pdb.file import Pdb
from icf.pdb.functions import PdbBody, find_bodies, is_complete, is_of_linker, read_procedures
from icf.pe.classes import code_ranges
from icf.pe.image import PeImage
from linkpass.pe.inputs import Input

_Key = tuple[str, str]  # file and name of a module


class Function(NamedTuple):
    """A member of a body, both by place."""

    body: int
    member: int


_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")  # C:\ or \\server
_DEFAULTS_LIMIT = 16  # weak symbols that stand in for another one
_NO_FUNCTIONS: frozenset[Function] = frozenset()


class Members:
    """All functions of an image, by the names that objects have for them."""

    def __init__(self, image: PeImage, pdb: Pdb) -> None:
        procedures = read_procedures(pdb)
        self.bodies: list[PdbBody] = find_bodies(pdb, procedures, code_ranges(image))
        self.complete = is_complete(pdb)  # no function is missing
        module_of: list[int] = procedures.module.tolist()
        keys = [_key(each.archive or each.name, each.name) for each in pdb.dbi.modules]
        external: dict[str, set[Function]] = {}
        local: dict[_Key, dict[str, set[Function]]] = {}
        for row, body in enumerate(self.bodies):
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
        self._external = {name: frozenset(found) for name, found in external.items()}
        self._local = local
        self._names = {_base_name(each.name) for each in pdb.dbi.modules}
        self._objects = [key for key, each in zip(keys, pdb.dbi.modules, strict=True) if not is_of_linker(each)]
        self._asked: tuple[CoffObject | None, dict[int, frozenset[Function]]] = None, {}  # by symbol of an object
        self._moved: dict[_Key, set[_Key]] = {}  # modules by the last parts of their paths
        for key in keys:
            self._moved.setdefault(_last_parts(key), set()).add(key)

    def meant_by(self, each: Input, symbol: int) -> frozenset[Function]:
        """Return the functions that a symbol of an object may mean; none if it means no function that is known."""
        if self._asked[0] is not each.object:
            self._asked = each.object, {}
        known = self._asked[1]
        if symbol not in known:
            known[symbol] = self._find(each, symbol)
        return known[symbol]

    def _find(self, each: Input, symbol: int) -> frozenset[Function]:
        obj = each.object
        for _ in range(_DEFAULTS_LIMIT):
            name = obj.name(symbol)
            if obj.is_local(symbol):
                return self._static(each, name)
            found = self.external(name)
            symbol = -1 if found else obj.default_of(symbol)
            if symbol < 0:
                return found
        return _NO_FUNCTIONS

    def external(self, name: str) -> frozenset[Function]:
        """Return the functions with that linkage name."""
        return self._external.get(name, _NO_FUNCTIONS)

    def _static(self, each: Input, name: str) -> frozenset[Function]:
        """Return the static functions of an object with that linkage name."""
        declared = declared_by(name) if name.startswith("?") else None
        names = self._names_of(each)
        spelled = spelled_alike(declared.name if declared else name)
        found = names.get(spelled, set())
        if len(found) > 1 and declared is not None:  # overloads
            found = names.get(f"{spelled}({parameters_alike(declared.parameters)})") or found
        return frozenset(found)

    def of_body(self, row: int) -> set[Function]:
        """Return all members of a body."""
        return {Function(row, idx) for idx in range(len(self.bodies[row].members))}

    def static_functions(self, each: Input) -> set[Function]:
        """Return all static functions of an object."""
        return set().union(*self._names_of(each).values())

    def _names_of(self, each: Input) -> dict[str, set[Function]]:
        """Return the static functions of an object by name; of one that was moved, those of all modules it may be."""
        key = _key(each.file, each.name)
        alike = self._moved.get(_last_parts(key), set())
        found: dict[str, set[Function]] = {}
        for module in {key} if key in alike else alike:
            for name, functions in self._local.get(module, {}).items():
                found.setdefault(name, set()).update(functions)
        return found

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


def only(found: frozenset[Function]) -> Function | None:
    """Return the function that is meant, if it is one."""
    return next(iter(found)) if len(found) == 1 else None


def _key(file: str, name: str) -> _Key:
    """Return what identifies a module; a name that is a path is that of a plain object.

    Where a link ran on Windows, its paths say nothing about files here.
    """
    if _WINDOWS.match(file):
        return (file, "") if name == file else (file, name)
    file = os.path.realpath(file)
    is_plain = os.path.isabs(name) and os.path.realpath(name) == file
    return (file, "") if is_plain else (file, name)
