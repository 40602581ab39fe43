"""What was read of the objects of the last link to the same output: objects that have not changed are not read again.

    JSON       the stamp of each file; of each object its file, its name, its counts of functions and addresses
    columns    those of `linkpass.objects.functions` and `linkpass.objects.addresses`, of all objects together

An object is the same if the stamp of its file is: device, inode, size, both times. A file that was written just before
the link, or since, has no stamp (`icf.filedigest`), and neither has a thin archive, whose members are other files.
What is kept of an object is a function of its bytes alone, so nothing else of the link matters.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.elf.archive import is_thin
from icf.filedigest import is_settled, stamp_of
from linkpass.link.kept_links import KeptLinks
from linkpass.link.sealed import count, seal, text, unseal
from linkpass.objects.addresses import Addresses
from linkpass.objects.code import Functions
from linkpass.objects.functions import LinkObjects, ObjectIndex

if TYPE_CHECKING:
    from icf.elf.objectfile import ObjectFile
    from linkpass.link.run import RunningLink

_MAGIC = b"icf objects 1\n"
# all columns but the number of the object, in their order
_FUNCTIONS = ("<i8", "<i8", "<u8", "<u8", "<u8", "?", "<u8")
_ADDRESSES = ("<u8", "<i8", "<i8", "?", "?", "?")

_Columns = tuple[NDArray[Any], ...]


class Entry(NamedTuple):
    """One object: several members of an archive may have one name."""

    path: str
    name: str
    number: int  # among those of this name


class Kept(NamedTuple):
    """All objects of a link."""

    stamps: dict[str, str]  # by path
    entries: dict[Entry, tuple[int, int, int, int]]  # from which function to which, and the same of the addresses
    functions: _Columns
    addresses: _Columns

    @classmethod
    def parse(cls, data: bytes) -> Kept:
        """Read the contents of a file. Raise ValueError if they are not whole, or of another version."""
        (stamps, rows), columns = unseal(_MAGIC, data)
        try:
            entries = [Entry(text(path), text(name), count(number)) for path, name, number, _, _ in rows]
            ends, address_ends = (list(accumulate((count(row[at]) for row in rows), initial=0)) for at in (3, 4))
            functions, start = _columns(columns, 0, _FUNCTIONS, ends[-1])
            addresses, _ = _columns(columns, start, _ADDRESSES, address_ends[-1])
            places = zip(ends, ends[1:], address_ends, address_ends[1:], strict=False)
            stamp_of_path = {path: text(stamp) for path, stamp in stamps.items()}
        except (AttributeError, TypeError) as error:
            raise ValueError("has fields of other kinds") from error
        return cls(stamp_of_path, dict(zip(entries, places, strict=True)), functions, addresses)

    def index_of(self, entry: Entry, object_idx: int) -> ObjectIndex:
        """Return what is kept of an object, which has this number now."""
        first, end, first_address, end_address = self.entries[entry]
        functions = [column[first:end] for column in self.functions]
        addresses = [column[first_address:end_address] for column in self.addresses]
        return ObjectIndex(
            Functions(np.full(end - first, object_idx, np.int64), *functions),
            Addresses(np.full(end_address - first_address, object_idx, np.int64), *addresses),
        )


class KeptObjects:
    """The objects of a link that runs, with what is kept of them; without `links` nothing is."""

    def __init__(self, links: KeptLinks | None, link: RunningLink, output: str) -> None:
        self._links, self._link, self._output = links, link, output
        self._stamps: dict[str, str] = {}
        self._entries: list[Entry] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._is_new = False
        self._kept = Kept({}, {}, (), ())
        data = links.load_objects(output) if links is not None else None
        if data is not None:
            with suppress(ValueError):
                self._kept = Kept.parse(data)

    def add(self, objects: LinkObjects, name: str, object_file: ObjectFile) -> None:
        """Add an object of the input `name`; it is read if it is not known."""
        path = name if name in self._link.files else name[: name.rfind("(")]
        entry = Entry(path, object_file.name, self._counts[path, object_file.name])
        self._counts[path, object_file.name] += 1
        self._entries.append(entry)
        stamp = self._stamp(path)
        if stamp and stamp == self._kept.stamps.get(path) and entry in self._kept.entries:
            objects.add(object_file, self._kept.index_of(entry, len(objects.objects)))
        else:
            self._is_new = True
            objects.add(object_file)
            objects.read_ahead()

    def save(self, objects: LinkObjects) -> None:
        """Keep the objects that were added, if any is new."""
        if self._links is None or not self._is_new:
            return
        self._is_new = False
        rows, functions, addresses = [], [], []
        for entry, index in zip(self._entries, objects.indexes(), strict=True):
            if index is not None and self._stamps[entry.path]:
                rows.append([*entry, len(index.functions.symbol), len(index.addresses.section)])
                functions.append(index.functions[1:])
                addresses.append(index.addresses[1:])
        stamps = {path: stamp for path, stamp in self._stamps.items() if stamp}
        columns = [*_joined(functions, _FUNCTIONS), *_joined(addresses, _ADDRESSES)]
        self._links.save_objects(self._output, seal(_MAGIC, [stamps, rows], columns))

    def _stamp(self, path: str) -> str:
        """Return the stamp of an input; "" if it may have changed since the link began."""
        if path not in self._stamps:
            self._stamps[path] = ""
            content = self._link.files.get(path)
            with suppress(OSError):
                status = os.stat(path)
                if content is not None and is_settled(status, self._link.start_ns) and not is_thin(content):
                    self._stamps[path] = stamp_of(status)
        return self._stamps[path]


def _columns(data: memoryview, at: int, types: tuple[str, ...], row_count: int) -> tuple[_Columns, int]:
    """Return columns of so many rows from `at` on, and where they end."""
    columns = []
    for kind in types:
        columns.append(np.frombuffer(data, kind, row_count, at))
        at += columns[-1].nbytes
    return tuple(columns), at


def _joined(parts: Sequence[_Columns], types: tuple[str, ...]) -> list[bytes]:
    return [
        np.concatenate([np.empty(0, kind), *(part[at] for part in parts)]).astype(kind, copy=False).tobytes()
        for at, kind in enumerate(types)
    ]
