"""The hash table by which the loader finds a dynamic symbol, so that one name costs no look at all of them.

    u32 bucket count, first hashed row, bloom words, bloom shift
    u64 bloom words
    u32 for each bucket: the row of `.dynsym` where its symbols begin, 0: none
    u32 for each row from the first hashed one on: the hash of its name; the lowest bit is set at the end of a bucket

Source: the section's type is SHT_GNU_HASH of the LSB; the form is glibc's (`elf/dl-lookup.c`) and binutils'.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from icf.columns import U32
from icf.elf.types import SHT_GNU_HASH, Section
from icf.errors import FormatError

if TYPE_CHECKING:
    from icf.elf.file import ElfFile

_HEADER_BYTES, _BLOOM_BYTES, _WORD_BYTES = 16, 8, 4


class SymbolHash:
    """The table of one image; `rows` finds the rows of `.dynsym` whose names may be the one sought."""

    def __init__(self, path: str, section: Section, content: memoryview) -> None:
        self._path, self._section = path, section
        words = np.frombuffer(content[: len(content) // _WORD_BYTES * _WORD_BYTES], "<u4")
        if len(words) * _WORD_BYTES < _HEADER_BYTES:
            raise self._error(0, f"the header needs {_HEADER_BYTES} bytes, {len(content)} are there")
        bucket_count, self._first, bloom_count, _ = words[:4].tolist()
        start = (_HEADER_BYTES + bloom_count * _BLOOM_BYTES) // _WORD_BYTES
        if start + bucket_count > len(words):
            raise self._error(0, f"{bucket_count} buckets end outside of the section")
        self._buckets: U32 = words[start : start + bucket_count]
        self._hashes: U32 = words[start + bucket_count :]

    def rows(self, name: str) -> list[int]:
        """Return the rows whose names have the hash of `name`, in order. Raises FormatError if a bucket has no end."""
        if not len(self._buckets):
            return []
        sought = hash_of(name)
        row = int(self._buckets[sought % len(self._buckets)])
        if row < self._first:
            return []
        found = []
        for at in range(row - self._first, len(self._hashes)):
            stored = int(self._hashes[at])
            if stored | 1 == sought | 1:
                found.append(at + self._first)
            if stored & 1:
                return found
        raise self._error(0, f"the bucket of row {row} has no end")

    def _error(self, offset: int, problem: str) -> FormatError:
        return FormatError(self._path, self._section.name, offset, problem)


@lru_cache(maxsize=64)
def hash_of(name: str) -> int:
    """Return the hash of a symbol's name: one is looked up in many modules, so the last ones are kept."""
    value = 5381
    for byte in name.encode("utf-8", "surrogateescape"):
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def read_symbol_hash(image: ElfFile) -> SymbolHash | None:
    """Return the table of an image; None if it has none, as those with a table of the older kind alone.

    Raises FormatError if the table breaks the format.
    """
    section = next((section for section in image.sections if section.type == SHT_GNU_HASH), None)
    return None if section is None else SymbolHash(image.path, section, image.contents(section))
