"""Allocations as heaptrack 1.4 has recorded them with `--raw`, shortened: two functions that share a body allocate."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
import zstandard

from icf.errors import IcfError
from tests.support.recordings import read, recognizes
from unwind.readers.formats import READERS
from unwind.samples.recording import Losses, RecordedModule, Sample

RAW = b"""v 10400 3
x 13 /tmp/my run/alloc 1
X ./alloc 1
I 1000 5e298f
m 1 -
m 1 x 56159fbe7000 0 7a4 17b0 280 2a30 5d0 3c38 468
m f linux-vdso.so.1 7f3fd77d6000 0 1522
m 1f /lib/x86_64-linux-gnu/libc.so.6 7f3fd721e000 0 25388 26000 1550fc 17c000 52c31 1cf8d0 12680
t 56159fbe87d0 0
t 7f3fd7245249 1
t 56159fbe88ae 2
t 56159fbe898c 3
+ 64 4 5615bcb6f1d0
+ 64 4 5615bcb6f390
t 7f3fd77d6012 2
+ 100 5 5615bcb6f470
- 5615bcb6f1d0
- 5615bcb5d530
c 1
R 3e8
"""
ALLOC, LIBC = RecordedModule("/tmp/my run/alloc 1"), RecordedModule("/lib/x86_64-linux-gnu/libc.so.6")


def places(sample: Sample) -> list[tuple[RecordedModule | None, int | None]]:
    return [(frame.module, frame.address) for frame in sample.frames]


def test_stacks_with_what_they_have_allocated() -> None:
    recording = read("heaptrack", RAW)
    first, second = recording
    names = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]
    assert [value.name for value in recording.values] == names and recording.losses is Losses.NONE
    assert places(first) == [(ALLOC, 0x198C), (ALLOC, 0x18AE), (LIBC, 0x27249), (ALLOC, 0x17D0)]
    assert first.weights == (2, 200, 1, 100) and second.weights == (1, 256, 1, 256)
    assert places(second)[:2] == [(None, 0x7F3FD77D6012), (LIBC, 0x27249)]  # in the vdso
    assert first.is_called and all(frame.in_call for frame in first.frames)
    assert first.process is second.process and first.process.modules == [ALLOC, LIBC] and first.process.is_whole
    assert first.frames[2] is second.frames[1]


def test_frames_lie_in_the_modules_of_their_time() -> None:
    later = b"m 1 -\nm 6 /lib/b 56159fbe7000 1000 7000\nt 56159fbe88ae 0\n+ 1 6 1\nm 1 -\nt 56159fbe88ae 0\n+ 1 7 2\n"
    *_, unloaded, gone = read("heaptrack", RAW + later)
    other = RecordedModule("/lib/b")
    assert places(unloaded) == [(other, 0x18AE)] and places(gone) == [(None, 0x56159FBE88AE)]
    assert unloaded.process.modules == [ALLOC, LIBC, other]


def test_a_place_that_is_taken_again_counts_for_the_one_that_has_it() -> None:
    first, second = read("heaptrack", RAW + b"- 5615bcb6f390\n+ 10 5 5615bcb6f390\n- 5615bcb6f390\n- 5615bcb6f390\n")
    assert first.weights == (2, 200, 0, 0) and second.weights == (2, 272, 1, 256)


def test_a_recording_that_was_cut_off() -> None:
    (sample,) = read("heaptrack", RAW[: RAW.index(b"5615bcb6f390") + 4])
    assert sample.weights == (1, 100, 1, 100)


def in_two_frames(raw: bytes) -> bytes:
    return zstandard.compress(raw[:99]) + zstandard.compress(raw[99:])


@pytest.mark.parametrize("pack", [zstandard.compress, gzip.compress, in_two_frames])
def test_compressed_recordings(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(RAW)
    assert [sample.weights for sample in read("heaptrack", packed)] == [(2, 200, 1, 100), (1, 256, 1, 256)]
    assert next(each for each in READERS if recognizes(each, packed)) == "heaptrack"


def test_what_unpacks_to_too_much_is_refused() -> None:
    bomb = zstandard.compress(RAW + (b"# %01023d\n" % 0) * (1 << 16))
    with pytest.raises(IcfError, match="zstd: inflates to .* the limit is 67108864"):
        list(read("heaptrack", bomb))


def test_damage_is_refused() -> None:
    with pytest.raises(IcfError, match="^f: zstd.0x0: data is corrupt: "):
        list(read("heaptrack", zstandard.compress(RAW) + b"\x28\xb5\x2f\xfd" + b"\xff" * 99))
    assert not recognizes("heaptrack", b"\x28\xb5\x2f\xfd" + b"\xff" * 99)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"t 12 6", "caller 0x6, there are 0x5 frames before it"),
        (b"+ 12 6 1", "frame 0x6, there are 0x5"),
        (b"+ 12", "b'+ 12' is not `+ bytes frame address`"),
        (b"- x", "b'- x' is not `- address`"),
        (b"t 1", "b't 1' is not `t address caller`"),
        (b"m 7 /a 0", "b'm 7 /a 0' is not a text of the size that it says"),
        (b"m 2 /a 0 1", "b'm 2 /a 0 1' is not `m size path start [address size]..`"),
        (b"x 0 ", "b'x 0 ' is not a text of the size that it says"),
        (b"? 1", "b'? 1' is not a line of heaptrack"),
        (b"s 4 main", "the recording has names in place of modules: nothing says where those lay"),
        (b"i 7ff3b4f1db9f 9 0 b 0", "the recording has names in place of modules: nothing says where those lay"),
    ],
)
def test_lines_that_heaptrack_would_not_write(line: bytes, problem: str) -> None:
    with pytest.raises(IcfError) as error:
        list(read("heaptrack", RAW + line + b"\n"))
    assert str(error.value) == f"f:{len(RAW.splitlines()) + 1}: {problem}"


def test_another_version_of_the_format() -> None:
    old = RAW.replace(b"v 10400 3", b"v 10200 2")
    assert recognizes("heaptrack", old)
    with pytest.raises(IcfError) as error:
        list(read("heaptrack", old))
    assert str(error.value) == "f:1: version 2 of the format, can read 3"
