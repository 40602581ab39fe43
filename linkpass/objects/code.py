"""Code and relocations of functions in objects, many at once.

    object   mov ?, %rdi       call ?          a relocation for each ?, at its place in the section
    image    mov 0x40f0, %rdi  call 0x1720     the same bytes between them

A function of an object is the one at an address of the image if all bytes are the same but those that a relocation
fills in, and the few around them that a linker rewrites: relaxed GOT loads turn into other instructions, thread-local
sequences into shorter ones.

Relocations are read for a section on its first use. They stand one after the other in columns, sorted by a
key: number of the section, in the order of first use, << 40 | offset. So finding them is a binary search for all
functions together, and sections that are used later go to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from icf.code.branches import executable_sections
from icf.columns import I64, U32, U64, Mask
from icf.elf.image import Image
from icf.elf.objectfile import RELOCATION, ObjectFile
from icf.elf.types import Machine
from icf.sets import difference, is_one_of, rows_of_runs

_SECTION_BITS = 32
_OFFSET_BITS = np.uint64(40)  # of a key; no section is larger than a file, and no link has 2 ** 24 sections with code
_OFFSET_LIMIT = np.uint64(1) << _OFFSET_BITS
# bytes before and after the start of a field that may differ: plain, 8 bytes wide, in a GOT load, thread-local
_FIELD, _WIDE_FIELD, _GOT_FIELD, _TLS_FIELD = (0, 4), (0, 8), (3, 4), (8, 12)
_X86_FIELDS = {
    _WIDE_FIELD: (1, 24, 25),
    _GOT_FIELD: (9, 41, 42),
    _TLS_FIELD: (19, 20, 21, 22, 23, 34, 35, 36, 44, 45, 46),
}


class Pieces(Protocol):
    """Columns of pieces with code or data in objects: functions, whole sections."""

    @property
    def object_idx(self) -> I64: ...
    @property
    def section(self) -> I64: ...
    @property
    def offset(self) -> U64: ...
    @property
    def size_bytes(self) -> U64: ...
    @property
    def file_offset(self) -> U64: ...


class Functions(NamedTuple):
    """Functions of objects, a row each; those of one object together, by (section, offset)."""

    object_idx: I64
    symbol: I64  # row in the symbol table of the object
    section: I64
    offset: U64  # in the section
    size_bytes: U64
    file_offset: U64  # in the object, of the code
    is_local: Mask
    name_hash: U64


class Relocations(NamedTuple):
    """Relocations in objects, a row each."""

    object_idx: I64
    type: U32
    symbol: I64  # row in the symbol table of the object
    addend: I64

    def rows(self, at: I64 | Mask) -> Relocations:
        """Return some of them."""
        return Relocations(self.object_idx[at], self.type[at], self.symbol[at], self.addend[at])


class ObjectCode:
    """The code of the functions, or other pieces, of some objects; they are given by their rows."""

    def __init__(self, objects: Sequence[ObjectFile], functions: Pieces) -> None:
        self._objects, self._functions = objects, functions
        self._known = np.empty(0, np.int64)  # object << 32 | section of what was asked for, ascending
        self._number = np.empty(0, np.uint64)  # of these sections
        self._key = np.empty(0, np.uint64)
        self._object_idx = np.empty(0, np.int64)
        self._entries: NDArray[Any] = np.empty(0, RELOCATION)

    def relocations(self, entries: I64) -> Relocations:
        """Return some of them."""
        part = self._entries[entries]
        return Relocations(self._object_idx[entries], part["type"], part["symbol"].astype(np.int64), part["addend"])

    def relocations_at(self, functions: I64, offsets: I64) -> I64:
        """Return the entry at each offset from the start of each function; -1 if none is there."""
        inside = (offsets >= 0) & (offsets < self._functions.size_bytes[functions].astype(np.int64))
        wanted = self._start_keys(functions) + np.where(inside, offsets, 0).astype(np.uint64)
        at = np.searchsorted(self._key, wanted)
        if len(self._key):
            inside &= self._key[np.minimum(at, len(self._key) - 1)] == wanted
        else:
            inside[:] = False
        return np.where(inside, at, -1)

    def is_at(self, image: Image, functions: I64, vaddrs: U64) -> Mask:
        """Return whether the body at each of these addresses is that function's, apart from bytes that relocations
        fill.
        """
        sizes = self._functions.size_bytes[functions].astype(np.int64)
        data = [object_file.data for object_file in self._objects]
        columns = (self._functions.object_idx[functions], self._functions.file_offset[functions], sizes)
        codes = [
            data[object_idx][file_offset : file_offset + size_bytes]
            for object_idx, file_offset, size_bytes in zip(*(column.tolist() for column in columns), strict=True)
        ]
        bodies = _read_bodies(image, vaddrs, sizes)
        same: Mask = (sizes > 0) & (sizes == np.fromiter(map(len, bodies), np.int64, len(sizes)))
        rows = np.flatnonzero(same)
        code = np.frombuffer(b"".join([codes[row] for row in rows.tolist()]), np.uint8)
        body = np.frombuffer(b"".join([bodies[row] for row in rows.tolist()]), np.uint8)
        differs = code != body
        starts = np.cumsum(sizes[rows]) - sizes[rows]
        self._forgive_fields(image.machine, functions[rows], starts, differs)
        same[rows[np.searchsorted(starts, np.flatnonzero(differs), side="right") - 1]] = False
        return same

    def _forgive_fields(self, machine: Machine, functions: I64, starts: I64, differs: Mask) -> None:
        """Clear the differences that relocations explain; the code of `functions[k]` begins at `starts[k]`."""
        low, sizes = self._start_keys(functions), self._functions.size_bytes[functions]
        first = np.searchsorted(self._key, low)
        counts = np.searchsorted(self._key, low + sizes) - first
        owner, rows = rows_of_runs(first, counts)
        at = (self._key[rows] - low[owner]).astype(np.int64)
        end = sizes.astype(np.int64)[owner]
        before, after = np.full(len(rows), _FIELD[0]), np.full(len(rows), _FIELD[1])
        if machine is Machine.X86_64:
            types = self._entries["type"][rows]
            for field, special_types in _X86_FIELDS.items():
                special = is_one_of(types, special_types)
                before[special], after[special] = field
        for distance in range(-_TLS_FIELD[0], _TLS_FIELD[1]):
            place = at + distance
            covered = (-before <= distance) & (distance < after) & (place >= 0) & (place < end)
            differs[starts[owner[covered]] + place[covered]] = False

    def _start_keys(self, functions: I64) -> U64:
        """Return the key of the first byte of each function, and read relocations of sections that are not read yet."""
        wanted = (self._functions.object_idx[functions] << _SECTION_BITS) | self._functions.section[functions]
        new = difference(wanted, self._known)
        if len(new):
            numbers = np.arange(len(self._known), len(self._known) + len(new)).astype(np.uint64)
            self._read(new >> _SECTION_BITS, new & ((1 << _SECTION_BITS) - 1), numbers)
            known = np.concatenate([self._known, new])
            order = np.argsort(known)
            self._known, self._number = known[order], np.concatenate([self._number, numbers])[order]
        number = self._number[np.searchsorted(self._known, wanted)]
        return (number << _OFFSET_BITS) + self._functions.offset[functions]

    def _read(self, object_idx: I64, section: I64, numbers: U64) -> None:
        """Append the relocations of these sections, which are in order."""
        keys, parts, owners = [np.empty(0, np.uint64)], [np.empty(0, RELOCATION)], [np.empty(0, np.int64)]
        used, starts = np.unique(object_idx, return_index=True)
        for owner, (first, end) in zip(used.tolist(), pairwise([*starts.tolist(), len(section)]), strict=True):
            sections, entries = self._objects[owner].relocations_in(section[first:end])
            number = numbers[first + np.searchsorted(section[first:end], sections)]
            # an offset beyond every section belongs to no function
            keys.append((number << _OFFSET_BITS) | np.minimum(entries["offset"], _OFFSET_LIMIT - np.uint64(1)))
            parts.append(entries)
            owners.append(np.full(len(entries), owner, np.int64))
        key = np.concatenate(keys)
        order = np.argsort(key, kind="stable")
        self._key = np.concatenate([self._key, key[order]])
        self._entries = np.concatenate([self._entries, np.concatenate(parts)[order]])
        self._object_idx = np.concatenate([self._object_idx, np.concatenate(owners)[order]])


def _read_bodies(image: Image, vaddrs: U64, sizes: I64) -> list[memoryview]:
    """Return the bytes at these addresses, fewer where the file has a gap."""
    bodies: dict[int, memoryview] = {}
    ends = vaddrs + sizes.astype(np.uint64)
    for section in executable_sections(image):
        code = section.code
        inside = np.flatnonzero((vaddrs >= section.vaddr) & (ends <= section.vaddr + len(code)) & (ends >= vaddrs))
        starts = (vaddrs[inside] - np.uint64(section.vaddr)).tolist()
        stops = (ends[inside] - np.uint64(section.vaddr)).tolist()
        bodies |= {row: code[start:stop] for row, start, stop in zip(inside.tolist(), starts, stops, strict=True)}
    columns = enumerate(zip(vaddrs.tolist(), sizes.tolist(), strict=True))
    return [bodies[row] if row in bodies else image.read(vaddr, size_bytes) for row, (vaddr, size_bytes) in columns]
