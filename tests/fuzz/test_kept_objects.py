"""Kept objects whose checksum fits what is wrong with them: each file is refused, or has rows inside of its columns."""

from __future__ import annotations

import random
from hashlib import sha256

import numpy as np
import pytest

from linkpass.link.kept_objects import Entry, Kept
from linkpass.link.sealed import seal
from tests.fuzz.limits import many

COUNT = many(3000)
MAGIC = b"icf objects 1\n"
DIGEST_BYTES = 32
ROWS = [["a.o", "a.o", 0, 2, 1], ["l.a", "l.a(\udcff.o)", 1, 0, 3]]
COLUMNS = [np.arange(2 * size, dtype=np.uint8).tobytes() for size in (8, 8, 8, 8, 8, 1, 8)]
COLUMNS += [np.arange(4 * size, dtype=np.uint8).tobytes() for size in (8, 8, 8, 1, 1, 1)]
WHOLE = seal(MAGIC, [{"a.o": "1-2", "l.a": "3-4"}, ROWS], COLUMNS)


def test_what_is_written_is_read() -> None:
    kept = Kept.parse(WHOLE)
    assert kept.entries == {Entry("a.o", "a.o", 0): (0, 2, 0, 1), Entry("l.a", "l.a(\udcff.o)", 1): (2, 2, 1, 4)}
    assert (len(kept.functions[0]), len(kept.addresses[0])) == (2, 4)


def test_hostile_contents_name_no_row_outside_of_their_columns() -> None:
    rest, rng = WHOLE[len(MAGIC) + DIGEST_BYTES :], random.Random(14)
    read = 0
    for _ in range(COUNT):
        changed = bytearray(rest)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed) // 2)] = rng.choice(b'0159-,.[]{}"eEntrfx\x00\xff')
        try:
            kept = Kept.parse(MAGIC + sha256(changed).digest() + changed)
        except ValueError:
            continue
        read += 1
        for first, end, first_address, end_address in kept.entries.values():
            assert 0 <= first <= end <= len(kept.functions[0])
            assert 0 <= first_address <= end_address <= len(kept.addresses[0])
    assert COUNT // 50 < read < COUNT


@pytest.mark.parametrize("size_bytes", range(0, len(WHOLE), 7))
def test_every_truncation_is_refused(size_bytes: int) -> None:
    with pytest.raises(ValueError, match="damaged"):
        Kept.parse(WHOLE[:size_bytes])
