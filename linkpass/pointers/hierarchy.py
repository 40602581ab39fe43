"""The vtables that the objects of a class may point to: those of the class and of all that derive from it, by RTTI.

The answer is worth something only if this image has all classes that derive from the asked one. Modules that a program
loads may derive from any class whose header they include. So that holds for classes with internal linkage; and for all
classes of a program that needs no libraries but those of the C and C++ runtime, and does not open others itself. It
never holds for classes of the runtime.

A vtable without RTTI, or with one that cannot be read, may be of any class.
"""

from __future__ import annotations

from functools import cache

from icf.demangle import demangle
from icf.elf.image import Image
from icf.elf.types import ET_EXEC, PT_INTERP
from icf.vtables.layout import Vtables
from icf.vtables.parameters import TYPEINFO
from icf.vtables.rtti import Classes, TypeInfo

_RUNTIME = ("libc.so.", "libm.so.", "libmvec.so.", "libstdc++.so.", "libgcc_s.so.", "libc++.so.", "libc++abi.so.")
_RUNTIME_TOO = ("libunwind.so.", "libpthread.so.", "libdl.so.", "librt.so.", "libatomic.so.", "ld-linux", "ld-musl")
_OPENS_OTHERS = ("dlopen", "dlmopen", "__libc_dlopen_mode")
_CLASSES_OF_RUNTIME = ("std::", "__gnu_cxx::", "__cxxabiv1::")
_CLASSES_LIMIT = 1 << 10  # of one hierarchy


class Hierarchy:
    """The groups of vtables of each class of an image and those that derive from it."""

    def __init__(self, image: Image, vtables: Vtables, listed: set[int]) -> None:
        """Take the groups that matter; others are left out."""
        is_alone = _is_alone(image)
        self._listed = listed
        self._of_any: set[int] = set()
        self._derived: dict[str, set[int]] = {}  # by the name of a class that no other module derives from
        bases_of = cache(lambda key: _read_bases(vtables.classes, key))
        for row, start in enumerate(vtables.groups.start.tolist()):
            key = vtables.typeinfo_of(row)
            bases = bases_of(key) if key[0] else None
            if bases is None:
                self._of_any.add(start)
            for name in bases or ():
                if is_alone or vtables.classes[name].is_local:
                    self._derived.setdefault(_text(vtables.classes[name].name), set()).add(start)
        self.groups_of = cache(self._groups_of)

    @property
    def has_types(self) -> bool:
        """Whether there is a class of which this can tell something."""
        return bool(self._derived)

    def _groups_of(self, name: str) -> tuple[int, ...]:
        """Return the groups that objects of a class may point into; none if there may be others."""
        if name not in self._derived or name.startswith(_CLASSES_OF_RUNTIME):
            return ()
        return tuple(sorted((self._derived[name] | self._of_any) & self._listed))


def _read_bases(classes: Classes, typeinfo: TypeInfo) -> set[TypeInfo] | None:
    """Return a class with all of its bases that are in this image; None if some may be unknown."""
    found: set[TypeInfo] = set()
    todo = [typeinfo]
    while todo and len(found) <= _CLASSES_LIMIT:
        key = todo.pop()
        one = classes[key]
        if one.is_import or key[1]:
            continue  # its bases are in its module, too
        if not one.name or not one.knows_bases:
            return None
        if key not in found:
            found.add(key)
            todo += one.bases
    return None if todo else found


def _text(type_name: str) -> str:
    return demangle(f"_ZTI{type_name}").removeprefix(TYPEINFO)


def _is_alone(image: Image) -> bool:
    """Return whether no other module of the process can derive from a class of the image."""
    is_program = image.elf_type == ET_EXEC or any(segment.type == PT_INTERP for segment in image.segments)
    symbols = image.dynamic_symbols
    if image.dynamic and not (is_program and symbols.count):
        return False
    names = symbols.names(range(symbols.count))
    if any(name in _OPENS_OTHERS for name in names):
        return False
    return all(name.startswith((*_RUNTIME, *_RUNTIME_TOO)) for name in image.needed)
