"""Stacks that the processor noted (`--call-graph lbr`), written record by record, and as `perf script` shows them."""

from __future__ import annotations

import logging
from pathlib import Path
from struct import pack

import pytest

from icf.errors import FormatError
from tests.support.perf_data import (
    BRANCH_COUNTERS,
    BRANCH_STACK,
    BRANCH_USER,
    CONTEXT_KERNEL,
    CONTEXT_USER,
    CONTEXT_USER_DEFERRED,
    KERNEL,
    LBR,
    PLAIN,
    SAMPLE,
    attr,
    comm,
    lbr_sample,
    mmap2,
    perf_data,
    record,
    words,
)
from tests.support.recordings import read
from tests.support.toolchain import run, tool
from unwind.samples.recording import Losses, Sample

IN_KERNEL = CONTEXT_KERNEL, 0xFFFFFFFF81000010, 0xFFFFFFFF81000020
SHOP = mmap2(7, 0x5000, 0x1000, "/bin/shop", 10, offset=0x2000)
CALLS = [(0x5100, 0x5200), (0x5300, 0x50F0)]  # from 0x5100 in the function at 0x50f0, which 0x5300 has called


def samples(*records: bytes, branches: int = LBR) -> list[Sample]:
    return list(read("perf", perf_data(SHOP + b"".join(records), attr(PLAIN | BRANCH_STACK, branches=branches))))


def addresses(each: Sample) -> list[int | None]:
    return [frame.address for frame in each.frames]


def test_the_stack_is_where_the_calls_are() -> None:
    (each,) = samples(lbr_sample(7, 20, CALLS, CONTEXT_USER, 0x5210, 0x5999))
    assert addresses(each) == [0x5210, 0x5100, 0x5300]
    assert [frame.callee for frame in each.frames] == [0, 0x5200, 0x50F0]
    assert [frame.is_exact for frame in each.frames] == [True, False, False]
    assert all(frame.module and frame.module.path == "/bin/shop" for frame in each.frames)


def test_kernel_frames_come_first() -> None:
    (each,) = samples(lbr_sample(7, 20, CALLS, *IN_KERNEL, CONTEXT_USER, 0x5210, misc=KERNEL))
    assert addresses(each) == [*IN_KERNEL[1:], 0x5210, 0x5100, 0x5300]
    (each,) = samples(lbr_sample(7, 20, CALLS, *IN_KERNEL, CONTEXT_USER_DEFERRED, 0x5777, misc=KERNEL))
    assert addresses(each) == [*IN_KERNEL[1:], 0x5200, 0x5100, 0x5300]  # 0x5777 is a cookie


def test_a_sample_of_the_kernel_alone_has_no_calls() -> None:
    (each,) = samples(lbr_sample(7, 20, CALLS, *IN_KERNEL, misc=KERNEL))
    assert addresses(each) == list(IN_KERNEL[1:])


def test_without_noted_calls_the_call_chain_counts() -> None:
    (each,) = samples(lbr_sample(7, 20, [], CONTEXT_USER, 0x5210, 0x5999))
    assert addresses(each) == [0x5210, 0x5999]


def test_one_call_is_one_frame() -> None:
    both = [lbr_sample(7, time, CALLS, CONTEXT_USER, 0x5210) for time in (20, 30)]
    first, second, other = samples(*both, lbr_sample(7, 40, [(0x5100, 0x5400)], CONTEXT_USER, 0x5410))
    assert first.frames[1] is second.frames[1]
    assert other.frames[1] is not first.frames[1] and other.frames[1].callee == 0x5400


def test_only_what_the_processor_has_seen_is_certain() -> None:
    content = perf_data(SHOP, attr(PLAIN | BRANCH_STACK, branches=LBR))
    assert read("perf", content).losses is Losses.ANY


@pytest.mark.parametrize("size_bytes", range(8, 100, 8))
def test_branches_that_are_cut_off_are_refused(size_bytes: int) -> None:
    whole = lbr_sample(7, 20, CALLS, CONTEXT_USER, 0x5210)[8:]
    cut = record(SAMPLE, whole[: len(whole) - size_bytes])
    with pytest.raises(FormatError, match=r"f: data\+0x[0-9a-f]+: sample: .* \d+ are left|sample needs \d+ bytes"):
        samples(cut)


def test_counters_follow_the_branches() -> None:
    whole = lbr_sample(7, 20, CALLS, CONTEXT_USER, 0x5210)[8:]
    (each,) = samples(record(SAMPLE, whole + words(1, 2)), branches=LBR | BRANCH_COUNTERS)
    assert addresses(each) == [0x5210, 0x5100, 0x5300]
    with pytest.raises(FormatError, match="branch counters of 16 bytes, 0 are left"):
        samples(record(SAMPLE, whole), branches=LBR | BRANCH_COUNTERS)


def test_branches_that_are_no_call_stack_leave_the_innermost_frame(caplog: pytest.LogCaptureFixture) -> None:
    plain = pack("<QIIQ", 0x5210, 7, 7, 20) + words(2, 0x5200, 0x5210, 0, 0x5100, 0x5200, 0)
    its_attr = attr(PLAIN & ~(1 << 5) | BRANCH_STACK, branches=BRANCH_USER)
    with caplog.at_level(logging.INFO, "icf"):
        (each,) = read("perf", perf_data(SHOP + record(SAMPLE, plain), its_attr))
    assert [(frame.address, frame.is_exact) for frame in each.frames] == [(0x5210, True)]
    assert [record.getMessage() for record in caplog.records] == [
        "f: samples hold the branches before them and no call chain: their innermost frame alone is used"
    ]


def test_perf_shows_the_same_frames(tmp_path: Path) -> None:
    """perf shows the start of the innermost function, which was called, in place of the program counter."""
    perf, path = tool("perf"), tmp_path / "perf.data"
    stacks = [
        lbr_sample(7, 20, CALLS, CONTEXT_USER, 0x5210, 0x5999),
        lbr_sample(7, 30, CALLS[1:], *IN_KERNEL, CONTEXT_USER, 0x50F8, misc=KERNEL),
        lbr_sample(7, 40, CALLS, *IN_KERNEL, misc=KERNEL),
    ]
    shop = mmap2(7, 0x5000, 0x1000, "/bin/shop", 10, offset=0x5000)  # perf up to 6.3 prints offsets in the file
    its_attr = attr(PLAIN | BRANCH_STACK, branches=LBR)
    path.write_bytes(perf_data(comm(7, "shop", 5) + shop + b"".join(stacks), its_attr))
    text = run(perf, "script", "-i", path, "--no-inline", "-F", "ip").stdout
    perfs = [[int(line, 16) for line in part.split()] for part in text.split("\n\n") if part.strip()]
    ours = []
    for each in samples(*stacks):
        callees = [frame.callee for frame in each.frames[1:]] + [0]
        frames = zip(each.frames, callees, strict=True)
        ours.append([callee if frame.is_exact and callee else frame.address for frame, callee in frames])
    assert len(perfs) == 3
    assert perfs == ours
