"""The functions of the objects that a program was linked from, as columns, found by name.

A function in an image is looked up in the objects by its symbol, a local one also by its source file. A
function with external linkage may be in many objects (COMDAT); the linker took the first. All the same it
is checked (`linkpass.objects.code`): the bytes of an object's function must be those of the body in the image, apart
from the places that a relocation fills in.

The index of a function in the columns identifies it: those are in the order of the link, and in an object by (section,
offset). An object is read when it is added, so that objects can be added while the linker still runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from icf.elf.image import Image
from icf.elf.objectfile import ObjectFile
from icf.elf.types import STB_LOCAL
from icf.errors import IcfError
from icf.linkers import HiddenSymbols
from icf.sets import distinct, rows_of_runs, rows_with
from linkpass.objects.addresses import Addresses, read_addresses
from linkpass.objects.code import Functions, ObjectCode
from linkpass.objects.wanted import Wanted

_OFFSET_BITS = 40  # no section is larger than a file
_OFFSET_LIMIT = (1 << _OFFSET_BITS) - 1


class ObjectIndex(NamedTuple):
    """What look-ups need of one object."""

    functions: Functions
    addresses: Addresses


class _Joined:
    """What is computed of some objects together, on first use."""

    def __init__(self, objects: list[ObjectFile], parts: list[Functions], addresses: list[Addresses | None]) -> None:
        self._objects, self._parts, self._addresses = objects, parts, addresses

    @cached_property
    def addresses(self) -> Addresses:
        parts = [
            known if known is not None else read_addresses(object_idx, self._objects[object_idx])
            for object_idx, known in enumerate(self._addresses)
        ]
        return Addresses(*map(np.concatenate, zip(*parts, strict=True)))

    @cached_property
    def functions(self) -> Functions:
        if not self._parts:
            rows, numbers = np.empty(0, np.int64), np.empty(0, np.uint64)
            return Functions(rows, rows, rows, numbers, numbers, numbers, rows != 0, numbers)
        return Functions(*(np.concatenate(columns) for columns in zip(*self._parts, strict=True)))

    @cached_property
    def code(self) -> ObjectCode:
        return ObjectCode(self._objects, self.functions)

    @cached_property
    def by_hash(self) -> tuple[U64, I64]:
        """The hashes of names, ascending, and their functions, in link order."""
        order = np.argsort(self.functions.name_hash, kind="stable")
        return self.functions.name_hash[order], order

    @cached_property
    def first_of_object(self) -> I64:
        """The first function of each object; after the last the number of functions."""
        return np.searchsorted(self.functions.object_idx, np.arange(len(self._objects) + 1)).astype(np.int64)

    @cached_property
    def starts(self) -> tuple[I64, I64]:
        """The sections with functions, object << 32 | section, and for each function its start: number of its section
        << 40 | offset."""
        section = self.functions.object_idx << 32 | self.functions.section
        is_first = np.append(True, section[1:] != section[:-1])[: len(section)]
        offset = np.minimum(self.functions.offset, np.uint64(_OFFSET_LIMIT)).astype(np.int64)
        return section[is_first], (np.cumsum(is_first) - 1 << _OFFSET_BITS) + offset


class LinkObjects:
    """The objects of a link, in its order."""

    def __init__(self, objects: Iterable[ObjectFile] = ()) -> None:
        self.objects: list[ObjectFile] = []
        self._parts: list[Functions] = []
        self._addresses: list[Addresses | None] = []  # None: not read yet
        self._joined = _Joined(self.objects, self._parts, self._addresses)
        self._is_prepared = False
        for object_file in objects:
            self.add(object_file)

    def add(self, object_file: ObjectFile, index: ObjectIndex | None = None) -> None:
        """Add one more object, with its index if that is known; after a look-up all is computed once more."""
        _ = object_file.relocation_section  # computed now, while the linker runs
        if index is None:
            self._parts.append(_read_functions(len(self.objects), object_file))
            self._addresses.append(None)
        else:
            self._parts.append(index.functions)
            self._addresses.append(index.addresses)
        self.objects.append(object_file)
        self._joined, self._is_prepared = _Joined(self.objects, self._parts, self._addresses), False

    def indexes(self) -> list[ObjectIndex | None]:
        """Return the index of each object; None for one whose addresses have not been read, or cannot be."""
        return [
            ObjectIndex(functions, addresses) if addresses is not None else None
            for functions, addresses in zip(self._parts, self._addresses, strict=True)
        ]

    def read_ahead(self) -> None:
        """Read the columns that later look-ups need of the object added last.

        An error in it shows at its look-up.
        """
        with suppress(IcfError):
            self._addresses[-1] = read_addresses(len(self.objects) - 1, self.objects[-1])

    def prepare(self) -> None:
        """Compute what look-ups need, as no more objects are likely to be added.

        An error shows at its look-up.
        """
        if self._is_prepared or not self.objects:
            return
        self._is_prepared = True
        with suppress(IcfError):
            for each in self.objects:
                symbols = each.symbols
                _ = each.has_lto_code, each.source_file, each.data_hashes, symbols.bind, symbols.is_defined
            _ = self.addresses, self._joined.first_of_object
            self.index()

    def index(self) -> None:
        """Put the functions in the orders in which look-ups need them."""
        _ = self._joined.by_hash, self._joined.starts

    @property
    def addresses(self) -> Addresses:
        """The addresses that objects take; at least one object was added."""
        return self._joined.addresses

    @property
    def functions(self) -> Functions:
        """The functions of all objects."""
        return self._joined.functions

    @property
    def code(self) -> ObjectCode:
        """Their code."""
        return self._joined.code

    def object_of(self, function: int) -> ObjectFile:
        """Return the object that a function is in."""
        return self.objects[int(self.functions.object_idx[function])]

    def name(self, function: int) -> str:
        """Return a function's name."""
        return self.object_of(function).symbols.name(int(self.functions.symbol[function]))

    def functions_at(self, object_idx: I64, section: I64, offset: I64) -> tuple[I64, I64]:
        """Return the functions that start at these places: for each the index of its place, and its own."""
        sections, starts = self._joined.starts
        wanted = object_idx << 32 | section
        number = np.searchsorted(sections, wanted)
        inside = (offset >= 0) & (offset < _OFFSET_LIMIT) & (number < len(sections))
        inside[inside] = sections[number[inside]] == wanted[inside]
        place = number << _OFFSET_BITS | np.where(inside, offset, 0)
        first = np.searchsorted(starts, place)
        counts = np.where(inside, np.searchsorted(starts, place, side="right") - first, 0)
        return rows_of_runs(first, counts)

    def last_start(self, object_idx: I64, section: I64, offset: I64) -> I64:
        """Return where the last function starts that starts at each of these places or before it; -1 if none does."""
        sections, starts = self._joined.starts
        if not len(sections):
            return np.full(len(offset), -1, np.int64)
        wanted = object_idx << 32 | section
        number = np.minimum(np.searchsorted(sections, wanted), len(sections) - 1)
        place = number << _OFFSET_BITS | np.clip(offset, 0, _OFFSET_LIMIT)
        found = starts[np.maximum(np.searchsorted(starts, place, side="right") - 1, 0)]
        inside = (sections[number] == wanted) & (found >> _OFFSET_BITS == number) & (found <= place) & (offset >= 0)
        return np.where(inside, found & (1 << _OFFSET_BITS) - 1, -1)

    def names_at(self, object_idx: int, section: int, offset: int) -> list[str]:
        """Return names of the functions that start at a place of an object."""
        first, end = self._joined.first_of_object[object_idx : object_idx + 2].tolist()
        sections, offsets = self.functions.section[first:end], self.functions.offset[first:end]
        low, high = np.searchsorted(sections, [section, section + 1]).tolist()
        if offset < 0:
            return []
        left, right = np.searchsorted(offsets[low:high], np.array([offset, offset + 1], np.uint64)).tolist()
        return [self.name(function) for function in range(first + low + left, first + low + right)]

    def has_operand(self, function: int, image: Image, end: int, start: int) -> bool:
        """Return whether the branch that ends at `end`, in the body at `start`, has its operand in the object, too."""
        at = int(self.functions.file_offset[function]) + end - start
        operand = self.objects[int(self.functions.object_idx[function])].data[at - 4 : at]
        return len(operand) == 4 and bytes(operand) == bytes(image.read(end - 4, 4))

    def definitions(self, image: Image, wanted: Wanted) -> tuple[I64, I64]:
        """Return the functions of objects that each wanted function can be, by name, file and code.

        For each one the index in `wanted`, ascending, and its own.
        """
        hashes, order = self._joined.by_hash
        name, at = rows_with(hashes, wanted.name_hash)
        function = order[at]
        is_local = self.functions.is_local[function]
        may_be = np.ones(len(name), np.bool_)
        files = list(map(wanted.files.__getitem__, wanted.function.tolist()))
        has_files = np.fromiter(map(bool, files), np.bool_, len(files))
        for row in np.flatnonzero(has_files[name]).tolist():
            source = self.object_of(int(function[row])).source_file
            may_be[row] = not source or source in files[int(name[row])]
        # hidden functions, and those that a version script does not list, are local in the image
        drops_file = image.linker.hidden_symbols is HiddenSymbols.AFTER_ANY_FILE
        asked = np.flatnonzero(may_be | (drops_file & ~is_local))
        asked = asked[np.lexsort((~is_local[asked], name[asked]))]
        name, function, is_local = name[asked], function[asked], is_local[asked]
        # of exported functions with one name the first that fits is the one, so most need no check of the others
        is_first = is_local | np.append(True, name[1:] != name[:-1])[: len(name)]
        is_first[1:] |= is_local[:-1]
        group = np.cumsum(is_first) - 1
        found = np.full(int(group[-1]) + 1 if len(group) else 0, -1)
        for is_tried in (is_first, ~is_first):
            rows = np.flatnonzero(is_tried & (found[group] < 0))
            fits = rows[self.code.is_at(image, function[rows], wanted.vaddr[wanted.function[name[rows]]])]
            groups, first = np.unique(group[fits], return_index=True)
            found[groups] = function[fits[first]]
        which = wanted.function[name[is_first]]
        return which[found >= 0], found[found >= 0]


def _read_functions(object_idx: int, object_file: ObjectFile) -> Functions:
    """Return the functions of an object, by (section, offset)."""
    symbols, sections, rows = object_file.symbols, object_file.sections, object_file.functions
    section, offset, size_bytes = symbols.shndx[rows].astype(np.int64), symbols.value[rows], symbols.size_bytes[rows]
    sections.check_stored(distinct(section))
    section_size = sections.size_bytes[section]
    is_inside = (offset <= section_size) & (size_bytes <= section_size - np.minimum(offset, section_size))
    return Functions(
        np.full(len(rows), object_idx, np.int64),
        rows,
        section,
        offset,
        np.where(is_inside, size_bytes, np.uint64(0)),  # a function without code is found nowhere
        sections.offset[section] + offset,
        symbols.bind[rows] == STB_LOCAL,
        symbols.hashes(rows),
    )
