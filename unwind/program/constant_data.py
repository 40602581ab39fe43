"""The words in constant data of an image that are addresses of data: code loads an address from there."""

from __future__ import annotations

import numpy as np

from icf.columns import U64
from icf.elf.image import Image
from icf.vtables.words import DATA, LoadedData

_CONSTANTS = (".got", ".got.plt", ".data.rel.ro", ".rodata")
_WORD_BYTES = 8


def find_constants(image: Image) -> tuple[U64, U64]:
    """Return places and values of the constants of an image that are addresses of data."""
    data = LoadedData(image)
    places, values = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for section in image.sections:
        if section.name in _CONSTANTS and (size_bytes := len(image.stored(section))):  # the file has no more than that
            first = -(-section.vaddr // _WORD_BYTES) * _WORD_BYTES
            end = (section.vaddr + size_bytes) // _WORD_BYTES * _WORD_BYTES
            words = data.words(np.arange(first, end, _WORD_BYTES, dtype=np.uint64))
            is_data = words.kind == DATA
            places.append(words.place[is_data])
            values.append(words.value[is_data])
    return np.concatenate(places), np.concatenate(values)
