"""True addresses in place of tombstones, from the relocations of a debug section (`lld --emit-relocs`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import U64
from icf.contents import Contents
from icf.dwarf._tombstones import find_tombstones, put_words
from icf.elf.image import Image
from icf.elf.types import Machine

_ABSOLUTE64 = {Machine.X86_64: 1, Machine.AARCH64: 257}
_ROWS = 1 << 19  # relocations read at a time, 12 MB


class Restored(NamedTuple):
    """The words of a section that were tombstones, by ascending offset."""

    offset: U64
    value: U64

    def put(self, room: memoryview, start: int) -> None:
        """Put them into the bytes of the section from `start` on."""
        low, high = max(start - 7, 0), start + len(room)
        first, last = np.searchsorted(self.offset, np.array([low, high], np.uint64)).tolist()
        if first < last:
            put_words(room, start, self.offset[first:last].data, self.value[first:last].data)


def find_restored(image: Image, name: str, contents: Contents) -> Restored | None:
    """Return the true addresses for one section of an image; None if there are none.

    Relocations are read a piece at a time: there may be more of them than of anything else.
    """
    relocations, rela = image.relocations(".rela" + name), image.section(".rela" + name)
    if relocations is None or rela is None or relocations.count == 0 or not len(contents):
        return None
    is_compressed = image.is_compressed(rela)
    raw, base = (image.contents(rela), 0) if is_compressed else (image.data, image.extent(rela)[0])
    values = np.ascontiguousarray(relocations.symbols.value, np.uint64)
    found = [np.empty((0, 2), np.uint64)]
    for first in range(0, relocations.count, _ROWS):
        start, end = base + first * 24, base + min(first + _ROWS, relocations.count) * 24
        entries = np.frombuffer(raw[start:end], np.uint64).reshape(-1, 3)
        entries = entries[entries[:, 1] & np.uint64(0x7FFFFFFF) == _ABSOLUTE64[image.machine]]
        if not is_compressed:
            image.release(start, end)
        if len(entries):
            low, high = int(entries[:, 0].min()), int(entries[:, 0].max()) + 8
            words = np.empty((len(entries), 2), np.uint64)
            count = find_tombstones(contents[low:high], low, entries.data, values.data, words.data)
            found.append(words[:count].copy())
    words = np.concatenate(found)
    if not len(words):
        return None
    offset, first_at = np.unique(words[:, 0], return_index=True)
    return Restored(offset, words[first_at, 1])
