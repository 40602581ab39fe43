"""Classes and their bases, from the type_info objects of an image (Itanium C++ ABI, section 2.9.5).

    _ZTI1C   +0   vtable of __class_type_info, __si_class_type_info or __vmi_class_type_info
             +8   name: "1C", the type as it is mangled; '*' before it: other files may have a class of that name, too
             +16  si: type_info of the base
                  vmi: 4 bytes of flags, 4 with the count of bases, then for each its type_info and 8 bytes: in the
                  lowest flags (1: virtual), in the upper seven the offset of the base, signed

No debug information is needed. A type_info identifies its class; of one in another module only the name is known.

Classes are rows of columns: first those of this image by address, then those of other modules, and last one of which
nothing is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.aliases import is_of_one_unit
from icf.columns import I64, U8, U64, Mask
from icf.contents import Contents
from icf.elf.image import Image
from icf.elf.types import STT_OBJECT
from icf.filebytes import FileBytes
from icf.sets import difference, distinct, is_in, rows_of_runs, union
from icf.strings import hash_table, string_parts
from icf.vtables.words import DATA, IMPORT, NUMBER, LoadedData

_SYMBOL = "_ZTI"
_NO_BASE, _ONE_BASE, _BASES = 1, 2, 3  # kinds of type_info; 0: another
_KINDS = {
    f"_ZTVN10__cxxabiv1{len(name)}{name}E": kind
    for kind, name in enumerate(("__class_type_info", "__si_class_type_info", "__vmi_class_type_info"), _NO_BASE)
}
_ADDRESS_POINT = np.uint64(16)
_COUNT_BITS = np.uint64(32)  # before the count of bases
_WORD_BYTES, _HEAD_BYTES, _BASE_BYTES = 8, 24, 16
_IS_VIRTUAL, _OFFSET_BIT = np.int64(1), np.int64(8)  # of the flags of a base
_LAST_VADDR = (1 << 64) - 1
LEVELS_MAX = 64  # of a class hierarchy
ANYWHERE = -1 << 63  # offset of a virtual base: it depends on the class of the whole object


class _Read(NamedTuple):
    """Classes of this image as they are read."""

    typeinfo: U64
    name: list[bytes]
    is_import: Mask
    knows_bases: Mask
    base_count: I64
    base: U64  # of all of them, one after the other
    imports_base: Mask
    base_offset: I64


class Classes:
    """The classes of some type_info objects, their bases, and so on."""

    def __init__(self, image: Image, data: LoadedData, typeinfos: U64, are_imports: Mask) -> None:
        """Read the classes of type_info objects: addresses, or rows of .dynsym where `are_imports`."""
        reader = _Reader(image, data)
        parts = [reader.read(np.empty(0, np.uint64))]
        self._here = self._imported = parts[0].typeinfo
        here, imported = distinct(typeinfos[~are_imports]), distinct(typeinfos[are_imports])
        for _ in range(LEVELS_MAX):
            if not len(here) and not len(imported):
                break
            parts.append(reader.read(here))
            self._here, self._imported = union(self._here, here), union(self._imported, imported)
            base, imports_base = parts[-1].base, parts[-1].imports_base
            here, imported = difference(base[~imports_base], self._here), difference(base[imports_base], self._imported)

        read = _joined(parts)
        names = read.name + list(map(_type_of, image.dynamic_symbols.names(self._imported.astype(np.int64)))) + [b""]
        others = np.arange(len(names) - len(self._here))  # those of other modules, and the last row
        texts = [name.removeprefix(b"*") + b"\0" for name in names]
        self._text, self._start = b"".join(texts), np.cumsum([0, *map(len, texts)])
        is_local = [name.startswith(b"*") or is_of_one_unit(_decoded(name)) for name in read.name]
        # its methods have internal linkage
        self.is_local: Mask = np.append(np.array(is_local, np.bool_), others < 0)
        # of another module: the loader finds the type_info there, or copies it
        self.is_import: Mask = np.append(read.is_import, others < len(self._imported))
        # the bases are all there are
        self.knows_bases: Mask = np.append(read.knows_bases, others < 0)
        self._base_start: I64 = np.append(0, np.cumsum(np.append(read.base_count, 0 * others)))
        self._base_row = self.rows(read.base, read.imports_base)
        self._base_offset = read.base_offset

    def __len__(self) -> int:
        return len(self._start) - 1

    def rows(self, typeinfos: U64, are_imports: Mask) -> I64:
        """Return the row of the class of each type_info object, the last one if it is not known."""
        found = np.full(len(typeinfos), len(self) - 1)
        for known, first, is_import in ((self._here, 0, False), (self._imported, len(self._here), True)):
            at = np.searchsorted(known, typeinfos)
            is_known = (are_imports == is_import) & (at < len(known))
            is_known &= np.append(known, np.uint64(0))[at] == typeinfos
            found[is_known] = first + at[is_known]
        return found

    def names(self, rows: I64) -> list[str]:
        """Return the mangled types of some classes, "" where it is not known."""
        edges = zip(self._start[rows].tolist(), (self._start[rows + 1] - 1).tolist(), strict=True)
        return [_decoded(self._text[start:end]) for start, end in edges]

    def has_name(self, rows: I64) -> Mask:
        """Return of which classes the name is known."""
        return np.asarray(self._start[rows + 1] - self._start[rows] > 1)

    def name_hashes(self, rows: I64) -> U64:
        """Return the hashes of the names of some classes."""
        return hash_table(self._text, self._start[rows].astype(np.uint64))

    def base_counts(self, rows: I64) -> I64:
        """Return how many direct bases some classes have."""
        return np.asarray(self._base_start[rows + 1] - self._base_start[rows])

    def bases_of(self, rows: I64) -> tuple[I64, I64]:
        """Return the direct bases of some classes: the index of each in `rows`, and the row of its base."""
        index, at = rows_of_runs(self._base_start[rows], self.base_counts(rows))
        return index, self._base_row[at]

    def base_offsets(self, rows: I64) -> I64:
        """Return the offset in bytes of each base that `bases_of` returns, or ANYWHERE."""
        return self._base_offset[rows_of_runs(self._base_start[rows], self.base_counts(rows))[1]]


class _Reader:
    """Reads classes of an image."""

    def __init__(self, image: Image, data: LoadedData) -> None:
        self._image, self._data = image, data
        # no two type_info objects or names overlap, so all of them together are no larger than the file
        self._bases_left, self._name_bytes_left = len(image.data) // _BASE_BYTES, len(image.data)
        self._objects = [
            (symbols, np.flatnonzero(symbols.is_defined & (symbols.type == STT_OBJECT)))
            for symbols in (image.symbols, image.dynamic_symbols)
        ]

    def read(self, typeinfos: U64) -> _Read:
        """Return the classes of type_info objects of this image, given in order."""
        head, head_kind = self._words(typeinfos, 0)
        name, name_kind = self._words(typeinfos, 8)
        type_kind = self._type_kinds(head, head_kind)
        count = np.where(type_kind == _BASES, self._words(typeinfos, 16)[0] >> _COUNT_BITS, np.uint64(0))
        is_sound = (count > 0) & (count <= np.uint64(self._bases_left))
        is_sound &= np.cumsum(np.where(is_sound, count, np.uint64(0))) <= np.uint64(self._bases_left)
        self._bases_left -= int(count[is_sound].sum())
        base_count = np.where(is_sound, count, np.uint64(0)).astype(np.int64)
        base_count[type_kind == _ONE_BASE] = 1
        knows_bases = is_sound | (type_kind == _NO_BASE) | (type_kind == _ONE_BASE)
        row, step = rows_of_runs(np.zeros(len(typeinfos), np.int64), base_count)
        at = np.where(type_kind[row] == _ONE_BASE, _ADDRESS_POINT, _HEAD_BYTES + _BASE_BYTES * step)
        base, base_kind = self._words(typeinfos[row], at.astype(np.uint64))
        flags = self._words(typeinfos[row], at.astype(np.uint64) + np.uint64(_WORD_BYTES))[0].view(np.int64)
        offset = np.where(flags & _IS_VIRTUAL != 0, ANYWHERE, flags >> _OFFSET_BIT)
        offset[type_kind[row] == _ONE_BASE] = 0
        is_base = (base_kind == DATA) | (base_kind == IMPORT)
        knows_bases[row[~is_base]] = False
        return _Read(
            typeinfos,
            self._names(typeinfos, name, name_kind),
            (head == 0) & (head_kind == NUMBER),
            knows_bases,
            np.bincount(row[is_base], minlength=len(typeinfos)),
            base[is_base],
            base_kind[is_base] == IMPORT,
            offset[is_base],
        )

    def _type_kinds(self, head: U64, kind: U8) -> U8:
        """Return which kind of type_info each first word belongs to."""
        found = np.zeros(len(head), np.uint8)
        is_table = (kind == DATA) & (head > _ADDRESS_POINT)
        for vaddr, names in self._symbols_at(distinct(head[is_table] - _ADDRESS_POINT)).items():
            kinds = [_KINDS[name] for name in names if name in _KINDS]
            found[is_table & (head == np.uint64(vaddr) + _ADDRESS_POINT)] = min(kinds, default=0)
        for row in distinct(head[kind == IMPORT]).tolist():
            found[(kind == IMPORT) & (head == row)] = _KINDS.get(self._image.dynamic_symbols.name(row), 0)
        return found

    def _words(self, vaddrs: U64, offset: int | U64) -> tuple[U64, U8]:
        """Return the value and the kind of the word at an offset from each address; 0 outside."""
        places = vaddrs + np.asarray(offset, np.uint64)
        is_word = (places >= vaddrs) & (places % np.uint64(_WORD_BYTES) == 0)
        known = self._data.words(distinct(places[is_word]))
        at = np.searchsorted(known.place, places[is_word])
        value, kind = np.zeros(len(places), np.uint64), np.full(len(places), NUMBER, np.uint8)
        value[is_word], kind[is_word] = known.value[at], known.kind[at]
        return value, kind

    def _symbols_at(self, vaddrs: U64) -> dict[int, list[str]]:
        """Return the names of the data at each of these addresses."""
        found: dict[int, list[str]] = {}
        for symbols, rows in self._objects:
            here = rows[is_in(symbols.value[rows], vaddrs[vaddrs > 0])]
            for vaddr, name in zip(symbols.value[here].tolist(), symbols.names(here), strict=True):
                found.setdefault(vaddr, []).append(name)
        return found

    def _names(self, typeinfos: U64, places: U64, kind: U8) -> list[bytes]:
        """Return the names of types, which stand at `places` where these are addresses, else in a symbol."""
        found = [b""] * len(places)
        order = np.argsort(places, kind="stable")
        order = order[kind[order] == DATA]
        for start, end, offset in self._image.backed:
            first, last = np.searchsorted(places[order], np.array([start, min(end, _LAST_VADDR)], np.uint64)).tolist()
            rows, inside = order[first:last], places[order[first:last]] - np.uint64(start)
            for part, buffer, starts in string_parts(self._contents(offset, end - start), inside):
                for row, name in zip(rows[part].tolist(), self._texts(bytes(buffer), starts), strict=False):
                    found[row] = name
        nameless = np.flatnonzero(kind != DATA)
        symbols = self._symbols_at(typeinfos[nameless])
        for row, vaddr in zip(nameless.tolist(), typeinfos[nameless].tolist(), strict=True):
            found[row] = _type_of(next(iter(symbols.get(vaddr, ())), ""))
        return found

    def _contents(self, offset: int, size_bytes: int) -> Contents:
        data = self._image.data
        if isinstance(data, FileBytes):
            return Contents.of_file(data, offset, offset + size_bytes)
        return Contents(data[offset : offset + size_bytes])

    def _texts(self, buffer: bytes, starts: U64) -> list[bytes]:
        """Return the strings that begin there; none if all names together are too long."""
        ends = np.append(np.flatnonzero(np.frombuffer(buffer, np.uint8) == 0).astype(np.uint64), np.uint64(0))
        end = np.maximum(ends[np.searchsorted(ends[:-1], starts)], starts)  # it begins where it ends if nothing ends it
        size_bytes = int((end - starts).sum())
        if size_bytes > self._name_bytes_left:
            return []
        self._name_bytes_left -= size_bytes
        return [buffer[start:last] for start, last in zip(starts.tolist(), end.tolist(), strict=True)]


def _joined(parts: list[_Read]) -> _Read:
    """Return all classes that were read, by the address of their type_info."""
    typeinfo, is_import, knows_bases, base_count, base, imports_base, base_offset = (
        np.concatenate(columns) for columns in zip(*((part[0], *part[2:]) for part in parts), strict=True)
    )
    names = [name for part in parts for name in part.name]
    order = np.argsort(typeinfo)
    _, at = rows_of_runs((np.cumsum(base_count) - base_count)[order], base_count[order])
    return _Read(
        typeinfo[order],
        [names[row] for row in order.tolist()],
        is_import[order],
        knows_bases[order],
        base_count[order],
        base[at],
        imports_base[at],
        base_offset[at],
    )


def _type_of(symbol: str) -> bytes:
    """Return the type whose type_info a symbol names; empty if it names something else."""
    return symbol.removeprefix(_SYMBOL).encode("utf-8", "surrogateescape") if symbol.startswith(_SYMBOL) else b""


def _decoded(name: bytes) -> str:
    return str(name, "utf-8", "surrogateescape")
