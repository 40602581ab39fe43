"""Names of a symcache: compressed in blocks, each read once."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from icf.errors import FormatError
from tests.support.symcaches import packed
from unwind.symcache.format.records import META, NAME_COUNT
from unwind.symcache.reader.symcache import SymCache

NAMES = [b"", b"main", b"\xff\n", *(b"_Z%d" % i for i in range(3, 3 + NAME_COUNT))]


def cache(blocks: list[bytes], name_count: int = len(NAMES)) -> SymCache:
    """A symcache of no function, with these blocks of names."""
    return packed(
        {
            "meta": META.pack(0, 4, 0, name_count, 1, 0, 0, 0, 0),
            "infos": bytes(4),
            "names": b"".join(blocks),
            "nameoff": np.cumsum([0, *map(len, blocks)]).astype(np.uint32).tobytes(),
        }
    )


def block(names: list[bytes]) -> bytes:
    return zlib.compress(b"".join(name + b"\0" for name in names))


def test_each_name_is_found_by_its_number() -> None:
    opened = cache([block(NAMES[:NAME_COUNT]), block(NAMES[NAME_COUNT:])])
    found = [opened.strings.text(number) for number in range(len(NAMES))]
    assert [name.encode("utf-8", "surrogateescape") for name in found] == NAMES


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (block(NAMES[: NAME_COUNT - 1]), rf"names\+0x0: block of names has {NAME_COUNT - 1}, must have {NAME_COUNT}"),
        (block(NAMES[:NAME_COUNT])[:-5], r"names\+0x0: names cannot be decompressed: "),
        (b"", r"names\+0x0: names cannot be decompressed: "),
        (zlib.compress(b"\0".join(NAMES[:NAME_COUNT])), rf"must have {NAME_COUNT}"),  # the last one has no end
    ],
)
def test_a_block_that_breaks_a_rule_is_refused(first: bytes, problem: str) -> None:
    opened = cache([first, block(NAMES[NAME_COUNT:])])
    with pytest.raises(FormatError, match=problem):
        opened.strings.text(1)
    assert opened.strings.text(NAME_COUNT) == NAMES[NAME_COUNT].decode()


@pytest.mark.parametrize("number", [len(NAMES), 2 * NAME_COUNT, 1 << 31])
def test_a_number_of_no_name_is_refused(number: int) -> None:
    opened = cache([block(NAMES[:NAME_COUNT]), block(NAMES[NAME_COUNT:])])
    with pytest.raises(FormatError, match=f"name {number} is none of {len(NAMES)}"):
        opened.strings.text(number)
