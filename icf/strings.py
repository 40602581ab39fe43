"""Hashes of names in bulk, to look many up in tables of hundreds of thousands without decoding those."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from icf._strings import hash_references
from icf.columns import U32, U64
from icf.string_kinds import IN_STR, STRING_KIND

_STR = np.uint64(IN_STR << STRING_KIND)  # the kind of a reference into the table that is passed second


def hash_names(names: Sequence[str]) -> U64:
    """Return the hash of each name."""
    encoded = [name.encode("utf-8", "surrogateescape") + b"\0" for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.uint64)
    starts = np.concatenate([np.zeros(1, np.uint64), ends[:-1]]) if len(names) else ends
    return hash_table(memoryview(b"".join(encoded)), starts)


def hash_table(table: memoryview, offsets: U64 | U32, *, of_kin: bool = False) -> U64:
    """Return the hash of each string of a string table, or of its kin (see `icf.aliases`)."""
    references = np.ascontiguousarray(offsets, np.uint64) | _STR
    hashes = np.empty(len(references), np.uint64)
    hash_references(b"", table, b"", references.data, of_kin, hashes.data)
    return hashes
