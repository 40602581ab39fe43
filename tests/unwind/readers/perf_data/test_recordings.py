"""Recordings that perf made: the same frames as perf itself reads."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from icf.errors import FormatError
from tests.support.paths import ROOT
from tests.support.perf_oracle import FIELDS, of_perf, of_reader
from tests.support.toolchain import run, tool
from unwind.readers.formats import reader_of, recognize
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data.events import Attr, Event
from unwind.readers.perf_data.sums import Owner, Sums
from unwind.readers.source import Source
from unwind.samples.calls import CallTree, stacks_at
from unwind.samples.recording import Losses, RecordedProcess, Recording, Sample, Value
from unwind.samples.sums import AddsUp, StackSums

DATA = ROOT / "testdata" / "perf"


def read(path: Path) -> Recording:
    with Source.open(str(path)) as source:
        assert recognize(source) == "perf"
        return reader_of("perf").read(source)


@pytest.mark.parametrize("name", ["hot", "hot.z", "hot.pipe"])
def test_each_frame_is_where_perf_has_it(name: str) -> None:
    recording = read(DATA / f"{name}.data")
    ours, perfs = of_reader(recording), of_perf((DATA / f"{name}.script").read_text())
    assert len(ours) == len(perfs) > 10
    assert ours == sorted(perfs, key=lambda each: (each.time_us, each.tid))
    assert recording.losses is Losses.FRAME_POINTERS
    assert recording.values == (Value("samples", "count"), Value("cpu-clock", "nanoseconds"))


def test_two_events_without_call_chains() -> None:
    recording = read(DATA / "hot.events.data")
    ours, perfs = of_reader(recording, has_chains=False), of_perf((DATA / "hot.events.script").read_text())
    assert len(ours) == len(perfs) > 3
    assert ours == sorted(perfs, key=lambda each: (each.time_us, each.tid))
    assert [value.name for value in recording.values] == [
        "cpu-clock samples",
        "cpu-clock",
        "page-faults samples",
        "page-faults",
    ]
    assert all(sample.weights == (1, 5_000_000, 0, 0) for sample in read(DATA / "hot.events.data"))


def read_added_up(path: Path) -> list[StackSums | list[Sample]]:
    samples = read(path).samples
    assert isinstance(samples, AddsUp)
    return list(samples.added_up())


def weights_of(sums: StackSums) -> Iterator[Sample]:
    """Yield a sample for each stack."""
    for idx, stack in enumerate(stacks_at(sums.calls, sums.nodes.tolist())):
        yield Sample(stack, sums.process, tuple([int(each[idx]) for each in sums.weights]), sums.labels)


@pytest.mark.parametrize("name", ["hot", "hot.pipe", "hot.events"])
def test_samples_added_up_have_the_weights_of_all(name: str) -> None:
    def sums(samples: Iterable[Sample]) -> Counter[tuple[object, ...]]:
        weights: Counter[tuple[object, ...]] = Counter()
        for each in samples:
            stack = tuple([(frame.address, frame.name, frame.is_exact) for frame in each.frames])
            labels = tuple([label for label in each.labels if label.key in ("pid", "comm", "event")])
            for idx, weight in enumerate(each.weights):
                weights[stack, labels, idx] += weight
        return weights

    one_by_one, parts = list(read(DATA / f"{name}.data")), read_added_up(DATA / f"{name}.data")
    *added_up, single = parts
    assert single == []
    stacks = [each for part in added_up if isinstance(part, StackSums) for each in weights_of(part)]
    assert sums(stacks) == sums(one_by_one)
    assert len(stacks) == len({(each.frames, *each.labels[:1]) for each in stacks}) < len(one_by_one)
    assert sum(int(part.counts.sum()) for part in added_up if isinstance(part, StackSums)) == len(one_by_one)


def test_a_damaged_recording_is_added_up_as_far_as_it_goes(tmp_path: Path) -> None:
    content = (DATA / "hot.pipe.data").read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(content[: len(content) * 3 // 4])

    def count(path: Path) -> int:
        return sum(int(part.counts.sum()) for part in read_added_up(path) if isinstance(part, StackSums))

    assert 0 < count(path) < count(DATA / "hot.pipe.data")


def test_periods_that_no_sum_of_64_bits_holds_are_added_up() -> None:
    rows = np.zeros((3, r.ROW_WIDTH), np.uint64)
    rows[:, r.PERIOD], rows[:, r.NODE] = (1 << 64) - 1, (5, 9, 5)
    event = Event(Attr(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0)
    owner, sums = Owner(RecordedProcess(1), event, ()), Sums()
    sums.add([owner], np.zeros(3, np.int64), rows)
    (part,) = sums.take(CallTree())
    assert part.nodes.tolist() == [5, 9]
    assert [each.tolist() for each in part.weights] == [[2, 1], [(1 << 65) - 2, (1 << 64) - 1]]
    assert not list(sums.take(CallTree()))


def test_build_ids_come_from_the_header_and_from_mappings() -> None:
    for name in ("hot", "hot.events"):
        modules = {module for sample in read(DATA / f"{name}.data") for module in sample.process.modules}
        assert {len(module.build_id) for module in modules} == {20}
        assert "/tmp/hot/hot" in {module.path for module in modules}


def test_a_process_that_called_exec_is_another_one() -> None:
    samples = list(read(DATA / "hot.data"))
    child = max(sample.process.pid for sample in samples)
    starts = {each.start for s in samples if s.process.pid == child for each in s.process.modules if "hot" in each.path}
    assert len(starts) == 2  # as it was forked, and after exec
    assert all(sample.process.is_whole for sample in samples)


def test_a_stack_that_was_copied_ends_at_an_image_that_is_not_found(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # perf keeps copies there
    with caplog.at_level(logging.WARNING, "icf"):
        with Source.open(str(DATA / "hot.dwarf.data")) as source:
            samples = list(reader_of("perf").read(source))
            source.images.report()
    users = [sample for sample in samples if sample.frames[-1].module is not None]
    assert users
    for sample in users:
        innermost = next(frame for frame in sample.frames if frame.module is not None)
        assert innermost.is_exact and innermost.module is not None
        assert innermost.module.path != "/tmp/hot/hot" or innermost is sample.frames[-1]
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("/tmp/hot/hot: no such file: copied stacks end there") == 1


def test_a_recording_may_come_through_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, (DATA / "hot.pipe.data").read_bytes())
    os.close(writing)
    with Source(os.fdopen(reading, "rb"), "pipe") as source:
        piped = of_reader(reader_of("perf").read(source))
    assert piped == of_reader(read(DATA / "hot.pipe.data"))


def test_a_recording_whose_end_is_missing_is_used_as_far_as_it_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = (DATA / "hot.pipe.data").read_bytes()
    (tmp_path / "cut.data").write_bytes(content[: len(content) * 3 // 4])
    samples = list(read(tmp_path / "cut.data"))
    assert 5 < len(samples) < len(list(read(DATA / "hot.pipe.data")))
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] in (
        [],
        [f"data+{at:#x}: the last record is cut off: what came before it is used" for at in _cuts(caplog)],
    )
    assert caplog.records


def _cuts(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [int(record.getMessage().partition("data+")[2].partition(":")[0], 16) for record in caplog.records]


def test_a_big_endian_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.data").write_bytes(b"2ELIFREP" + bytes(200))
    with pytest.raises(Exception, match="was recorded on a big-endian machine"):
        read(tmp_path / "big.data")


def test_what_is_no_perf_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.data").write_bytes(b"PERFILE2" + b"\1" * 200)
    with pytest.raises(FormatError, match=r"file header\+0x8: header of \d+ bytes, must have 104, or 16 in a pipe"):
        read(tmp_path / "p.data")


@pytest.mark.slow
def test_a_fresh_recording_reads_as_perf_reads_it(tmp_path: Path) -> None:
    perf = tool("perf")
    program, data = tmp_path / "hot", tmp_path / "perf.data"
    run(tool("gcc"), "-O1", "-fno-omit-frame-pointer", "-pthread", DATA / "hot.c", "-o", program)
    options = ["-e", "cpu-clock", "-F", "2000", "--call-graph", "fp", "--buildid-mmap"]
    result = run(perf, "record", "-q", *options, "-o", data, "--", program, check=False)
    if result.returncode or not data.exists():
        pytest.skip("perf may not record here")
    text = run(perf, "script", "-i", data, "--no-inline", "-F", FIELDS).stdout
    ours, perfs = of_reader(read(data)), of_perf(text)
    assert len(ours) == len(perfs) > 20
    assert ours == sorted(perfs, key=lambda each: (each.time_us, each.tid))
