"""CPU profiles of gperftools, word by word."""

from __future__ import annotations

from array import array

import pytest

from icf.errors import FormatError
from tests.support.recordings import read, recognizes
from unwind.samples.recording import Base, RecordedModule, Value

HEADER = (0, 3, 0, 10_000, 0)  # 10 ms between samples
TRAILER = (0, 1, 0)
MAPS = b"55d0a0001000-55d0a0003000 r-xp 00001000 fe:00 338944                     /bin/shop\n"
SHOP = RecordedModule("/bin/shop", b"", Base.RUN_TIME, 0x55D0A0001000, 0x55D0A0003000, 0x1000)
PC, CALLER, MAIN = 0x55D0A0001136, 0x55D0A0001180, 0x55D0A0003000


def profile(*words: int, maps: bytes = MAPS) -> bytes:
    return array("Q", words).tobytes() + maps


def test_stacks_with_their_counts() -> None:
    recording = read("gperftools-cpu", profile(*HEADER, 3, 2, PC, CALLER, 1, 2, PC, MAIN, *TRAILER))
    first, second = recording
    assert recording.values == (Value("samples", "count"), Value("cpu", "nanoseconds"))
    assert (first.weights, second.weights) == ((3, 30_000_000), (1, 10_000_000))
    assert [frame.address for frame in first.frames] == [PC, CALLER] and not first.is_called
    # MAIN is the address after the mapping: a return address there returns from a call in it
    assert [frame.module for frame in second.frames] == [SHOP, SHOP]


def test_a_program_counter_at_the_end_of_a_mapping_is_in_none() -> None:
    (sample,) = read("gperftools-cpu", profile(*HEADER, 1, 1, MAIN, *TRAILER))
    assert sample.frames[0].module is None


def test_a_program_counter_that_stands_twice_counts_once() -> None:
    twice = profile(*HEADER, 3, 3, PC, PC, CALLER, 1, 3, CALLER, CALLER, MAIN, 1, 2, PC, MAIN, *TRAILER)
    assert [[frame.address for frame in sample.frames] for sample in read("gperftools-cpu", twice)] == [
        [PC, CALLER],
        [CALLER, MAIN],
        [PC, MAIN],
    ]


def test_a_recursion_is_no_program_counter_twice() -> None:
    recursion = profile(*HEADER, 3, 3, PC, PC, CALLER, 1, 2, PC, MAIN, 1, 2, PC, CALLER, *TRAILER)
    assert len(next(iter(read("gperftools-cpu", recursion))).frames) == 3


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((*HEADER, 1, 9, PC), r"samples\+0x28: stack of 9 addresses, must have 1 or more"),
        ((*HEADER, 1, 0, PC), r"samples\+0x28: stack of 0 addresses, must have 1 or more"),
        ((*HEADER, 0, 1, PC), r"samples\+0x28: stack that was never seen"),
        ((*HEADER, 1, 1, PC), r"samples\+0x40: there is no trailer"),
        ((*HEADER, 1, 1 << 63, PC), r"samples\+0x28: stack of 9223372036854775808 addresses"),
        (HEADER[:4], r"header\+0x0: is not that of a CPU profile"),
    ],
)
def test_what_breaks_the_format_is_refused(words: tuple[int, ...], problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read("gperftools-cpu", profile(*words, maps=b""))


def test_profiles_are_known_by_their_header() -> None:
    assert recognizes("gperftools-cpu", profile(*HEADER)) and not recognizes("gperftools-cpu", profile(0, 2, 0, 1, 0))
