"""Jumps out of a function, by its bytes alone."""

from __future__ import annotations

import pytest

from icf.code.exits import Exit, find_exits


@pytest.mark.parametrize(
    ("code", "exits"),
    [
        ("c3", []),
        ("eb00 c3", []),  # to what follows
        ("7f02 ebfc c3", [Exit(2, 0)]),  # to its start: a loop, or a call of itself
        ("0f84fa030000 e9fb000000", [Exit(0, 0x400), Exit(6, 0x106)]),
        ("48ffe0", [Exit(0, None)]),
        ("f2ff2512000000", [Exit(0, None)]),
        ("48ff28", [Exit(0, None)]),  # a far jump
        ("e800000000 c3", [Exit(0, None)]),  # a call into its middle
        ("e8fbffffff e800010000 ffd0", []),  # calls of itself, of others
        ("06 ffe0", None),
        ("e90000", None),  # cut off
    ],
)
def test_jumps_that_may_leave(code: str, exits: list[Exit] | None) -> None:
    assert find_exits(memoryview(bytes.fromhex(code))) == exits


def test_no_room_is_too_small() -> None:
    pushes = bytes.fromhex("50") * 5000  # two rows each
    assert find_exits(memoryview(pushes + bytes.fromhex("ffe0"))) == [Exit(5000, None)]
