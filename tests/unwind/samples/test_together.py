"""Stacks in parts: so many stacks, so many frames, and what waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from icf.errors import IcfError
from unwind.samples.together import FRAMES, STACKS, together


def test_parts_have_so_many_stacks() -> None:
    stacks = [range(3)] * (2 * STACKS + 1)
    assert [len(part) for part in together(stacks, len)] == [STACKS, STACKS, 1]
    assert [len(part) for part in together(stacks, len, limit=STACKS * 2)] == [2 * STACKS, 1]
    assert list(together([], len)) == []


def test_parts_have_so_many_frames() -> None:
    stacks = [range(FRAMES // 2 - 1), range(2), range(5), range(FRAMES * 9), range(1)]
    assert list(together(stacks, len)) == [stacks[:4], stacks[4:]]


def test_a_part_ends_where_nothing_waits() -> None:
    waiting = iter([True, False, True, True])
    assert list(together("abcd", len, lambda: next(waiting))) == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize("before", [["a", "b"], []])
def test_what_was_read_before_an_error_comes_first(before: list[str]) -> None:
    def stacks() -> Iterator[str]:
        yield from before
        raise IcfError("this is no stack")

    parts = together(stacks(), len)
    if before:
        assert next(parts) == before
    with pytest.raises(IcfError, match="no stack"):
        next(parts)
