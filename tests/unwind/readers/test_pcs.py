"""`--format pcs`: what a line can hold, and what is refused with the line's number."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unwind.readers.pcs import read_pcs, recognizes
from unwind.readers.source import LineError
from unwind.samples.stack import Stack


def read(*lines: bytes) -> list[Stack]:
    return list(read_pcs(lines, "s.txt"))


def test_a_line_is_a_stack_innermost_first() -> None:
    assert read(b"0x401136 0X401180 4011F0\n") == [Stack((0x401136, 0x401180, 0x4011F0))]


def test_weights_comments_and_unknown_frames() -> None:
    lines = (b"# head\n", b"\n", b"  \t\r\n", b"0x10 ? 0x20 x12 # hot\r\n", b"? x1", b"0x10#x3")
    assert read(*lines) == [Stack((0x10, None, 0x20), 12), Stack((None,)), Stack((0x10,))]


def test_a_frame_may_carry_a_vtable_pointer() -> None:
    # twice, since plain tokens are remembered and these must not be
    assert (
        read(*[b"0x10@vptr=0x404010 0x20 30@vptr=40 x2"] * 2)
        == [Stack((0x10, 0x20, 0x30), 2, ((0, 0x404010), (2, 0x40)))] * 2
    )


def test_an_exclamation_mark_says_that_an_address_is_exact() -> None:
    line = b"0x10! 0x20! 30 40!@vptr=0x50 60@vptr=70! x2"
    assert read(*[line] * 2) == [Stack((0x10, 0x20, 0x30, 0x40, 0x60), 2, ((3, 0x50), (4, 0x70)), (1, 3, 4))] * 2


def test_the_widest_address_is_read_exactly() -> None:
    assert read(b"0xffffffffffffffff 0000000000000000000001 0x0")[0].addresses == (2**64 - 1, 1, 0)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"0x10 main", "frame 'main': not a hexadecimal address"),
        (b"0x", "frame '0x': not a hexadecimal address"),
        (b"0x1_0", "frame '0x1_0': not a hexadecimal address"),
        (b"+10", "frame '+10': not a hexadecimal address"),
        (b"-0x10", "frame '-0x10': not a hexadecimal address"),
        (b"0x10000000000000000", "frame '0x10000000000000000': address does not fit 64 bits"),
        (b"0x10@vptr=", "frame '0x10@vptr=': not a hexadecimal address"),
        (b"0x10@this=0x1", "frame '0x10@this=0x1': unknown attribute, a frame may carry @vptr=ADDRESS"),
        (b"?!", "frame '?!': not a hexadecimal address"),
        (b"0x10 !", "frame '!': not a hexadecimal address"),
        (b"0x10 0x20!!", "frame '0x20!!': not a hexadecimal address"),
        (b"0x10 0x20!@vptr=0x30!", "frame '0x20!@vptr=0x30!': marked as exact twice"),
        (b"?@vptr=0x1", "frame '?@vptr=0x1': not a hexadecimal address"),
        (b"x3", "a weight without a stack"),
        (b"0x10 x0", "weight 'x0': needs x and a number from 1 to 18 digits"),
        (b"0x10 x", "weight 'x': needs x and a number from 1 to 18 digits"),
        (b"0x10 x1000000000000000000", "weight 'x1000000000000000000': needs x and a number from 1 to 18 digits"),
        (b"x3 0x10", "frame 'x3': not a hexadecimal address"),
        (b"0x10 x3 x4", "frame 'x3': not a hexadecimal address"),
        (b"\xff\xfe", r"frame '\\xff\\xfe': not a hexadecimal address"),
        (b"g" * 99, f"frame '{'g' * 60}...': not a hexadecimal address"),
    ],
)
def test_a_bad_line_is_refused(line: bytes, problem: str) -> None:
    with pytest.raises(LineError) as caught:
        read(b"0x10", b"", line)
    assert str(caught.value) == f"s.txt:3: {problem}"
    assert caught.value.offset == 3
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


frames = st.one_of(st.none(), st.integers(0, 2**64 - 1))


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(frames, min_size=1, max_size=9), st.integers(1, 10**18 - 1))))
def test_what_is_written_is_read(stacks: list[tuple[list[int | None], int]]) -> None:
    lines = [
        " ".join([*("?" if address is None else f"{address:#x}" for address in addresses), f"x{weight}"]).encode()
        for addresses, weight in stacks
    ]
    assert read(*lines) == [Stack(tuple(addresses), weight) for addresses, weight in stacks]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"# comment\n\n0x12 0x34! ? 401136@vptr=0x404010 x12\n", True),
        (b"401136", True),
        (b"main;run 12\n", False),
        (b"x12\n", True),  # a weight without a stack: the reader says so
        (b"", True),
    ],
)
def test_stacks_are_known_by_their_first_line(head: bytes, expected: bool) -> None:
    assert recognizes(head) is expected


@pytest.mark.parametrize("line", ["#0  0x00005610e637a76b leaf", " 0# leaf at a.cpp:12 [0x55]"])
def test_frames_of_other_formats_are_no_comments(line: str) -> None:
    """Of elfutils and of Boost: they would be skipped without a word, or read as the address 0."""
    assert not recognizes(line.encode())
    with pytest.raises(LineError, match="is a frame of a format that icf does not know"):
        list(read_pcs([b"0x10 0x20\n", line.encode()], "s.txt"))
