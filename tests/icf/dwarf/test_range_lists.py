"""Where the contributions to .debug_rnglists begin."""

from __future__ import annotations

from struct import pack

import pytest

from icf.contents import Contents
from icf.dwarf import range_lists
from icf.dwarf.range_lists import contribution_starts

SHORT = pack("<IHBBI", 8 + 5, 5, 8, 0, 0) + b"\1\2\3\4\0"
LONG = pack("<IQHBBI", 0xFFFFFFFF, 8 + 3, 5, 8, 0, 0) + b"\1\2\0"


def starts(data: bytes) -> list[int]:
    found: list[int] = contribution_starts(Contents(memoryview(data))).tolist()
    return found


@pytest.mark.parametrize("chunk_bytes", [12, 13, 40, 1 << 20])
def test_each_contribution_has_its_length(chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_lists, "_CHUNK_BYTES", chunk_bytes)
    assert starts(SHORT) == [0]
    assert starts(SHORT + LONG + SHORT) == [0, len(SHORT), len(SHORT + LONG)]


@pytest.mark.parametrize(
    "rest", [b"", b"\0" * 64, b"\xff" * 64, pack("<I", 7) + bytes(60), pack("<IQ", 0xFFFFFFFF, 1 << 63) + bytes(60)]
)
def test_bytes_that_are_no_contribution_end_the_last_one(rest: bytes) -> None:
    assert starts(SHORT + rest) == [0, len(SHORT)][: 1 + bool(rest)]
    assert starts(rest) == [0]
