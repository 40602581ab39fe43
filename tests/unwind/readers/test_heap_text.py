"""Heap profiles and profiles of locks as gperftools and jemalloc write them."""

from __future__ import annotations

import pytest

from icf.errors import FormatError
from tests.support.recordings import read, recognizes
from unwind.readers.source import LineError
from unwind.samples.recording import Base, Label, RecordedModule, Value

MAPS = b"""55d0a0000000-55d0a0001000 r--p 00000000 fe:00 338944                     /bin/shop
55d0a0001000-55d0a0003000 r-xp 00001000 fe:00 338944                     /bin/shop (deleted)
7fff1495c000-7fff1497d000 rw-p 00000000 00:00 0           [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0           [vsyscall]
"""
GPERFTOOLS = b"""heap profile:    13:   5120 [    41:  17408] @ heapprofile
     3:     1024 [    10:     4096] @ 0x55d0a0001136 0x55d0a0001180
    10:     4096 [    31:    13312] @ 0x55d0a0003000 0x7f0000000000

MAPPED_LIBRARIES:
"""
JEMALLOC = b"""heap_v2/524288
  t*: 24: 11824 [0: 0]
  t0: 23: 11632 [0: 0] main
  t9: 1: 192 [0: 0]
@ 0x55d0a0001136 0x55d0a0001180
  t*: 13: 6688 [20: 9000]
  t0: 12: 6496 [19: 8000]
  t9: 1: 192 [1: 1000]
@ 0x55d0a0001140
  t*: 11: 5136 [0: 0]

MAPPED_LIBRARIES:
"""
LOCKS = b"""--- contention:
cycles/second = 3201000000
sampling period = 100
   19490304       27 @ 0x55d0a0001136 0x55d0a0001180
--- Memory map: ---
"""
SHOP = RecordedModule("/bin/shop", b"", Base.RUN_TIME, 0x55D0A0001000, 0x55D0A0003000, 0x1000)


def test_gperftools_counts_objects_and_bytes() -> None:
    recording = read("heap", GPERFTOOLS + MAPS)
    first, second = recording
    assert [value.name for value in recording.values] == [
        "alloc_objects",
        "alloc_space",
        "inuse_objects",
        "inuse_space",
    ]
    assert (first.weights, second.weights) == ((10, 4096, 3, 1024), (31, 13312, 10, 4096))
    assert first.process.modules == [SHOP]


def test_every_address_is_a_return_address() -> None:
    first, second = read("heap", GPERFTOOLS + MAPS)
    assert first.is_called and [frame.address for frame in first.frames] == [0x55D0A0001136, 0x55D0A0001180]
    # the first call is the last instruction of the mapping: it returns to the address after it
    assert [frame.module for frame in (*first.frames, *second.frames)] == [SHOP, SHOP, SHOP, None]


def test_jemalloc_counts_by_thread() -> None:
    samples = list(read("heap", JEMALLOC + MAPS))
    assert [(sample.weights, sample.labels) for sample in samples] == [
        ((19, 8000, 12, 6496), (Label("thread", "main"),)),
        ((1, 1000, 1, 192), (Label("thread", "9"),)),
        ((0, 0, 11, 5136), ()),
    ]
    assert samples[0].frames == samples[1].frames and all(sample.is_called for sample in samples)


def test_threads_that_are_not_all_count_together() -> None:
    changed = JEMALLOC.replace(b"  t9: 1: 192 [1: 1000]\n", b"")
    assert [sample.labels for sample in read("heap", changed + MAPS)] == [(), ()]


def test_locks_count_cycles_and_how_often() -> None:
    recording = read("heap", LOCKS + MAPS)
    (sample,) = recording
    assert recording.values == (Value("contentions", "count"), Value("delay", "cycles"))
    assert sample.weights == (27, 19490304) and sample.is_called
    assert [frame.module for frame in sample.frames] == [SHOP, SHOP]


def test_a_profile_without_maps_has_addresses_in_no_module() -> None:
    (sample, _) = read("heap", GPERFTOOLS.partition(b"MAPPED")[0])
    assert [frame.module for frame in sample.frames] == [None, None] and not sample.process.is_whole


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"heap profile: 1: 2\n", "f:1: b'heap profile: 1: 2' is not the first line of a heap profile"),
        (b"heap_v2/x\n", "f:1: .* is not the first line of a heap profile"),
        (b"", "f:1: b'' is not the first line of a heap profile"),
        (GPERFTOOLS.replace(b"@ 0x55d0a0001136", b"0x55d0a0001136"), "f:2: .* is not `objects: bytes"),
        (GPERFTOOLS.replace(b"0x55d0a0001136", b"0x" + b"1" * 17), "f:2: .* is not `objects: bytes"),
        (JEMALLOC.replace(b"t9: 1: 192 [1", b"t9: 1: 192 (1"), "f:8: .* is not `@ addresses` or `tN: objects: bytes"),
        (LOCKS.replace(b" 27 @", b" 27"), "f:4: .* is not `cycles count @ addresses`"),
    ],
)
def test_a_line_that_does_not_belong_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(LineError, match=problem):
        read("heap", content)


def test_maps_that_the_kernel_would_not_write_are_refused() -> None:
    with pytest.raises(FormatError, match=r"f: maps\+0x0: .* is not a mapping above those before it"):
        read("heap", GPERFTOOLS + b"55d0a0001000 r-xp\n")


@pytest.mark.parametrize("head", [GPERFTOOLS, JEMALLOC, LOCKS])
def test_profiles_are_known_by_their_first_line(head: bytes) -> None:
    assert recognizes("heap", head) and not recognizes("heap", b"\n" + head)
