"""Classes and their bases, from the type_info objects of an image (Itanium C++ ABI, section 2.9.5).

    _ZTI1C   +0   vtable of __class_type_info, __si_class_type_info or __vmi_class_type_info
             +8   name: "1C", the type as it is mangled; '*' before it: other files may have a class of that name, too
             +16  si: type_info of the base
                  vmi: 4 bytes of flags, 4 with the count of bases, then for each its type_info and 8 bytes of flags

No debug information is needed. A type_info identifies its class; of one in another module only the name is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from icf.elf.image import Image
from icf.elf.types import STT_OBJECT
from icf.sets import is_in
from icf.vtables.words import DATA, IMPORT, NUMBER, LoadedData

TypeInfo = tuple[int, bool]  # the address of a type_info; or a row of .dynsym, and True
_Word = tuple[int, int]  # value, kind

_SYMBOL = "_ZTI"
_ANONYMOUS = "12_GLOBAL__N_1"
_NO_BASE, _ONE_BASE, _BASES = (
    f"_ZTVN10__cxxabiv1{len(name)}{name}E"
    for name in ("__class_type_info", "__si_class_type_info", "__vmi_class_type_info")
)
_ADDRESS_POINT = 16
_HEAD_BYTES, _BASE_BYTES = 24, 16
_NAME_STEP_BYTES, _NAME_BYTES_MAX = 256, 1 << 16
_LEVELS_MAX = 64  # of a class hierarchy


class Class(NamedTuple):
    """A class, by its type_info."""

    name: str  # its type, mangled; "" if it is not known
    bases: tuple[TypeInfo, ...]
    knows_bases: bool  # `bases` are all there are
    is_local: bool = False  # its methods have internal linkage
    is_import: bool = False  # of another module: the loader finds the type_info there, or copies it


_UNKNOWN = Class("", (), False)


class Classes:
    """The classes of some type_info objects, their bases, and so on."""

    def __init__(self, image: Image, data: LoadedData, typeinfos: Iterable[TypeInfo]) -> None:
        self._image, self._data = image, data
        self._known: dict[TypeInfo, Class] = {}
        # no two type_info objects or names overlap, so all of them together are no larger than the file
        self._bases_left, self._name_bytes_left = len(image.data) // _BASE_BYTES, len(image.data)
        wanted = set(typeinfos)
        for _ in range(_LEVELS_MAX):
            wanted -= self._known.keys()
            if not wanted:
                break
            self._known.update(self._read(sorted(vaddr for vaddr, is_import in wanted if not is_import)))
            for row, is_import in wanted:
                if is_import:
                    self._known[row, True] = Class(_type_of(image.dynamic_symbols.name(row)), (), False, is_import=True)
            wanted = {base for one in wanted for base in self[one].bases}

    def __getitem__(self, typeinfo: TypeInfo) -> Class:
        return self._known.get(typeinfo, _UNKNOWN)

    def _read(self, typeinfos: Sequence[int]) -> dict[TypeInfo, Class]:
        """Return the classes of type_info objects in this image."""
        words = self._words(vaddr + 8 * at for vaddr in typeinfos for at in range(3))
        tables = {value - _ADDRESS_POINT for value, kind in (words[vaddr] for vaddr in typeinfos) if kind == DATA}
        symbols = self._symbols_at({*typeinfos, *tables})
        bases_at: dict[int, list[int]] = {}  # where the type_info of each base stands
        for vaddr in typeinfos:
            value, kind = words[vaddr]
            tables_there = symbols.get(value - _ADDRESS_POINT, []) if kind == DATA else []
            if kind == IMPORT:
                tables_there = [self._image.dynamic_symbols.name(value)]
            if _NO_BASE in tables_there:
                bases_at[vaddr] = []
            elif _ONE_BASE in tables_there:
                bases_at[vaddr] = [vaddr + 16]
            elif _BASES in tables_there and 0 < (count := words[vaddr + 16][0] >> 32) <= self._bases_left:
                self._bases_left -= count
                bases_at[vaddr] = [vaddr + _HEAD_BYTES + _BASE_BYTES * at for at in range(count)]
        words |= self._words(place for places in bases_at.values() for place in places)
        found = {}
        for vaddr in typeinfos:
            place, kind = words[vaddr + 8]
            name = self._string_at(place) if kind == DATA else next(map(_type_of, symbols.get(vaddr, ())), "")
            is_local = name.startswith("*") or _ANONYMOUS in name
            bases = [words[place] for place in bases_at.get(vaddr, ())]
            sound = tuple((value, kind == IMPORT) for value, kind in bases if kind in (DATA, IMPORT))
            knows_bases = vaddr in bases_at and len(sound) == len(bases)
            is_copy = words[vaddr] == (0, NUMBER)
            found[vaddr, False] = Class(name.removeprefix("*"), sound, knows_bases, is_local, is_copy)
        return found

    def _words(self, places: Iterable[int]) -> dict[int, _Word]:
        """Return the value and the kind of the word at each place; those outside of the image are numbers."""
        wanted = sorted(set(places))
        known = self._data.words(np.array([place for place in wanted if place < 1 << 64 and place % 8 == 0], np.uint64))
        found = dict.fromkeys(wanted, (0, NUMBER))
        found.update(
            zip(known.place.tolist(), zip(known.value.tolist(), known.kind.tolist(), strict=True), strict=True)
        )
        return found

    def _symbols_at(self, vaddrs: Iterable[int]) -> dict[int, list[str]]:
        """Return the names of the data at each of these addresses."""
        wanted = np.array(sorted(vaddr for vaddr in vaddrs if vaddr > 0), np.uint64)
        found: dict[int, list[str]] = {}
        for table in (self._image.symbols, self._image.dynamic_symbols):
            rows = np.flatnonzero(is_in(table.value, wanted) & table.is_defined & (table.type == STT_OBJECT))
            for vaddr, name in zip(table.value[rows].tolist(), table.names(rows.tolist()), strict=True):
                found.setdefault(vaddr, []).append(name)
        return found

    def _string_at(self, vaddr: int) -> str:
        """Return the name of a type at an address; "" if it has no end."""
        size_bytes = _NAME_STEP_BYTES
        while True:
            text = bytes(self._image.read(vaddr, min(size_bytes, self._name_bytes_left)))
            end = text.find(0)
            if end >= 0 or len(text) < size_bytes or size_bytes > _NAME_BYTES_MAX:
                break
            size_bytes *= 4
        self._name_bytes_left -= len(text) if end < 0 else end
        return text[:end].decode("utf-8", "surrogateescape") if end > 0 else ""


def _type_of(symbol: str) -> str:
    """Return the type whose type_info a symbol names; "" if it names something else."""
    return symbol[len(_SYMBOL) :] if symbol.startswith(_SYMBOL) else ""
