"""The functions of a linked PE image, and which of them a symbol of an object means.

A name with external linkage means the one member that has it. A static function is looked up in the module that the
linker made of its object: by name and parameters of its record, if just one there has them. The module has the path of
the object; of an object that was moved since it is the one module with that file name.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from icf.microsoft_names import declared_by, parameters_alike, spelled_alike
from icf.model import MemberFlag
from icf.pdb import columns as col
from icf.pdb.file import Pdb
from icf.pdb.functions import PdbBody, find_bodies, is_complete, read_procedures
from icf.pe.classes import code_ranges
from icf.pe.image import PeImage

_Key = tuple[str, str]  # file and name of a module


class Function(NamedTuple):
    """A member of a body, both by place."""

    body: int
    member: int


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
        self._external, self._local = external, local
        self._moved: dict[_Key, set[_Key]] = {}  # modules by the last parts of their paths
        for key in keys:
            self._moved.setdefault(_last_parts(key), set()).add(key)

    def external(self, name: str) -> Function | None:
        """Return the function with that linkage name; None if there is not just one."""
        return _only(self._external.get(name, set()))

    def local(self, file: str, module: str, name: str) -> Function | None:
        """Return the static function of an object with that linkage name; None if there is not just one."""
        declared = declared_by(name) if name.startswith("?") else None
        key = _key(file, module)
        alike = self._moved.get(_last_parts(key), set())
        names = self._local.get(key) or (self._local.get(min(alike)) if len(alike) == 1 else None) or {}
        spelled = spelled_alike(declared.name if declared else name)
        found = names.get(spelled, set())
        if len(found) > 1 and declared is not None:  # overloads
            found = names.get(f"{spelled}({parameters_alike(declared.parameters)})", set())
        return _only(found)


def _last_parts(key: _Key) -> _Key:
    return re.split(r"[\\/]", key[0])[-1], key[1]


def _only(found: set[Function]) -> Function | None:
    return next(iter(found)) if len(found) == 1 else None


def _key(file: str, name: str) -> _Key:
    """Return what identifies a module; a name that is a path is that of a plain object."""
    file = os.path.realpath(file)
    is_plain = os.path.isabs(name) and os.path.realpath(name) == file
    return (file, "") if is_plain else (file, name)
