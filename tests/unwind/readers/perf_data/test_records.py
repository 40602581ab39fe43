"""perf.data of every shape, written record by record."""

from __future__ import annotations

import os
from pathlib import Path
from struct import pack, unpack_from

import pytest
import zstandard

from icf.errors import FormatError
from tests.support.paths import ROOT
from tests.support.perf_data import (
    COMPRESSED,
    CONTEXT_KERNEL,
    CONTEXT_USER,
    CONTEXT_USER_DEFERRED,
    DEFERRED,
    KERNEL,
    PLAIN,
    SAMPLE,
    attr,
    comm,
    end_of,
    fork,
    mmap2,
    namespaces,
    perf_data,
    piped,
    record,
    sample,
    words,
)
from unwind.readers.formats import reader_of
from unwind.readers.source import Source
from unwind.samples.recording import Sample, Value

SHOP = mmap2(7, 0x5000, 0x1000, "/bin/shop", 10, offset=0x2000, build_id=bytes(range(1, 21)))


def read(content: bytes, tmp_path: Path) -> list[Sample]:
    (tmp_path / "perf.data").write_bytes(content)
    with Source.open(str(tmp_path / "perf.data")) as source:
        return list(reader_of("perf").read(source))


def paths(each: Sample) -> list[str]:
    return [frame.module.path if frame.module is not None else frame.name for frame in each.frames]


def labels(each: Sample) -> dict[str, int | str]:
    return {label.key: label.value for label in each.labels}


# Call chains


def test_what_follows_a_marker_is_a_program_counter(tmp_path: Path) -> None:
    chain = CONTEXT_KERNEL, 0xFFFFFFFF81000010, 0xFFFFFFFF81000020, CONTEXT_USER, 0x5010, 0x5020
    (each,) = read(perf_data(SHOP + sample(7, 20, *chain, misc=KERNEL)), tmp_path)
    assert [frame.is_exact for frame in each.frames] == [True, False, True, False]
    assert paths(each) == ["[kernel]", "[kernel]", "/bin/shop", "/bin/shop"]
    module = each.frames[2].module
    assert module is not None and (module.start, module.end, module.offset) == (0x5000, 0x6000, 0x2000)
    assert module.build_id == bytes(range(1, 21))


def test_an_address_is_one_frame_however_often_it_comes(tmp_path: Path) -> None:
    stacks = sample(7, 20, CONTEXT_USER, 0x5010, 0x5020) + sample(7, 30, CONTEXT_USER, 0x5030, 0x5020)
    first, second = read(perf_data(SHOP + stacks), tmp_path)
    assert first.frames[1] is second.frames[1]
    assert first.process is second.process


def test_without_a_call_chain_there_is_the_program_counter(tmp_path: Path) -> None:
    plain = record(SAMPLE, pack("<QIIQ", 0x5010, 7, 7, 20))
    (each,) = read(perf_data(SHOP + plain, attr(PLAIN & ~(1 << 5))), tmp_path)
    assert [(frame.address, frame.is_exact) for frame in each.frames] == [(0x5010, True)]


def test_other_spaces_have_names_alone(tmp_path: Path) -> None:
    chain = (1 << 64) - 32, 0x10, (1 << 64) - 2176, 0x20, (1 << 64) - 2560, 0x30
    (each,) = read(perf_data(SHOP + sample(7, 20, *chain)), tmp_path)
    assert paths(each) == ["[hypervisor]", "[guest.kernel]", "[guest]"]


@pytest.mark.parametrize("is_first", [False, True])
def test_the_deferred_part_of_a_chain_is_joined_by_cookie_and_thread(tmp_path: Path, is_first: bool) -> None:
    waiting = sample(7, 20, CONTEXT_KERNEL, 0xFFFFFFFF81000010, CONTEXT_USER_DEFERRED, 99, misc=KERNEL)
    waiting += sample(7, 21, CONTEXT_KERNEL, 0xFFFFFFFF81000020, CONTEXT_USER_DEFERRED, 99, misc=KERNEL)
    other = record(DEFERRED, words(99, 2, CONTEXT_USER, 0x5099) + end_of(8, 22))
    rest = record(DEFERRED, words(99, 3, CONTEXT_USER, 0x5010, 0x5020) + end_of(7, 23))
    records = other + rest + waiting if is_first else waiting + other + rest
    found = read(perf_data(SHOP + records), tmp_path)
    assert [[frame.address for frame in each.frames] for each in found] == [
        [0xFFFFFFFF81000010, 0x5010, 0x5020],
        [0xFFFFFFFF81000020, 0x5010, 0x5020],
    ]
    assert [frame.is_exact for frame in found[0].frames] == [True, True, False]


def test_a_cookie_is_never_an_address(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    waiting = sample(7, 20, CONTEXT_KERNEL, 0xFFFFFFFF81000010, CONTEXT_USER_DEFERRED, 0x5010, misc=KERNEL)
    (each,) = read(perf_data(SHOP + waiting), tmp_path)
    assert [frame.address for frame in each.frames] == [0xFFFFFFFF81000010]
    assert "1 samples lack the program's frames" in caplog.text


# Processes


def test_mappings_count_from_their_time_on_wherever_they_stand(tmp_path: Path) -> None:
    late = mmap2(7, 0x5000, 0x1000, "/lib/late.so", 40)
    samples = sample(7, 50, CONTEXT_USER, 0x5010) + sample(7, 30, CONTEXT_USER, 0x5010)
    early, before = sample(7, 5, CONTEXT_USER, 0x5010), sample(7, 50, CONTEXT_USER, 0x6000)
    found = read(perf_data(samples + late + early + before + SHOP), tmp_path)
    assert [paths(each) for each in found] == [["/lib/late.so"], ["/bin/shop"], [""], [""]]
    assert [[module.path for module in each.process.modules] for each in found[:2]] == [["/lib/late.so"], ["/bin/shop"]]


def test_a_fork_has_what_its_parent_had_then_and_exec_drops_it(tmp_path: Path) -> None:
    records = (
        SHOP
        + fork(8, 7, 20)
        + mmap2(7, 0x9000, 0x1000, "/lib/of-parent.so", 25)
        + comm(8, "again", 40, is_exec=True)
        + mmap2(8, 0x7000, 0x1000, "/bin/again", 45)
    )
    asked = [sample(8, time, CONTEXT_USER, 0x5010, 0x7010, 0x9010) for time in (30, 50)]
    found = [paths(each) for each in read(perf_data(records + b"".join(asked)), tmp_path)]
    assert found == [["/bin/shop", "", ""], ["", "/bin/again", ""]]


def test_the_program_that_called_exec_is_innermost_until_the_next_is_loaded(tmp_path: Path) -> None:
    records = (
        SHOP
        + comm(7, "again", 40, is_exec=True)
        + mmap2(7, 0x7000, 0x1000, "/bin/again", 45)
        + mmap2(7, 0x8000, 0x1000, "[vdso]", 50)
        + mmap2(7, 0x9000, 0x1000, "/lib/x.so", 60)
    )
    asked = [sample(7, time, CONTEXT_USER, 0x5010) for time in (42, 55, 65)]
    assert [paths(each) for each in read(perf_data(records + b"".join(asked)), tmp_path)] == [
        ["/bin/shop"],
        ["/bin/shop"],
        [""],
    ]


def test_a_part_of_a_file_that_is_mapped_again_stays_one_module(tmp_path: Path) -> None:
    again = mmap2(7, 0x5800, 0x400, "/bin/shop", 20, offset=0x2800, build_id=bytes(range(1, 21)))
    (each,) = read(perf_data(SHOP + again + sample(7, 30, CONTEXT_USER, 0x5810, 0x5010)), tmp_path)
    assert each.frames[0].module is each.frames[1].module
    assert len(each.process.modules) == 1


def test_threads_have_their_names_from_a_time_on(tmp_path: Path) -> None:
    names = comm(7, "shop", 1) + comm(7, "worker", 30, tid=9)
    names += record(7, pack("<4IQ", 7, 7, 9, 7, 20) + end_of(7, 20))  # a thread that was started
    asked = sample(7, 25, CONTEXT_USER, 0x5010, tid=9) + sample(7, 35, CONTEXT_USER, 0x5010, tid=9)
    found = read(perf_data(SHOP + asked + names), tmp_path)
    assert [labels(each)["comm"] for each in found] == ["shop", "worker"]
    assert {labels(each)["tid"] for each in found} == {9}


@pytest.mark.parametrize("path", ["//anon", "/memfd:jit (deleted)", "[heap]", "[vdso]", "/dev/zero", "/SYSV00000000"])
def test_memory_of_no_file_is_no_module(tmp_path: Path, path: str) -> None:
    (each,) = read(perf_data(mmap2(7, 0x5000, 0x1000, path, 1) + sample(7, 30, CONTEXT_USER, 0x5010)), tmp_path)
    assert each.frames[0].module is None and not each.process.modules


def test_a_file_without_a_build_id_has_device_and_inode(tmp_path: Path) -> None:
    plain, of_none = mmap2(7, 0x5000, 0x1000, "/bin/a", 10), mmap2(7, 0x7000, 0x1000, "/bin/b", 10, file_id=(0x801, 0))
    damaged = mmap2(7, 0x9000, 0x1000, "/bin/c", 10).replace(pack("<II", 8, 1), b"\xff" * 8)
    addresses = (0x5010, 0x7010, 0x9010, 0xB010)
    stack = sample(7, 20, CONTEXT_USER, *addresses)
    build = mmap2(7, 0xB000, 0x1000, "/bin/d", 10, build_id=bytes(range(20)))
    (each,) = read(perf_data(plain + of_none + damaged + build + stack), tmp_path)
    modules = [frame.module for frame in each.frames]
    assert [module.file_id for module in modules if module is not None] == [(0x801, 17), None, None, None]


def test_a_process_of_another_mount_namespace_has_another_root(tmp_path: Path) -> None:
    own, gone = os.stat("/proc/self/ns/mnt").st_ino, (1 << 22) + 1  # above all numbers of processes
    for mounts, root in ((own, ""), (own + 1, f"/proc/{gone}/root")):
        records = namespaces(gone, mounts, 5) + mmap2(gone, 0x5000, 0x1000, "/bin/a", 10)
        (each,) = read(perf_data(records + sample(gone, 20, CONTEXT_USER, 0x5010)), tmp_path)
        assert each.process.root == root


def test_a_file_that_was_deleted_is_looked_for_by_build_id_alone(tmp_path: Path) -> None:
    known = mmap2(7, 0x5000, 0x1000, "/bin/a (deleted)", 1, build_id=b"\1" * 16)
    unknown = mmap2(7, 0x7000, 0x1000, "/bin/b (deleted)", 1)
    (each,) = read(perf_data(known + unknown + sample(7, 30, CONTEXT_USER, 0x5010, 0x7010)), tmp_path)
    assert paths(each) == ["/bin/a", "/bin/b (deleted)"]
    module = each.frames[0].module
    assert module is not None and module.build_id == b"\1" * 16


# Samples


def test_every_field_before_the_call_chain_and_the_branches_after_it(tmp_path: Path) -> None:
    everything = (1 << 25) - 1 & ~(1 << 14)  # all but WEIGHT, which WEIGHT_STRUCT stands for
    described = attr(everything, read_format=0x1F, branches=1 << 17, regs_user=0x1FF, regs_intr=3, period=0)
    contents = words(1, 0x5010) + pack("<II", 7, 9) + words(20, 0xADD4, 1, 5) + pack("<II", 3, 0) + words(123)
    contents += words(2, 11, 12, 100, 1, 0, 200, 2, 0)  # READ: a group of two
    contents += words(3, CONTEXT_USER, 0x5010, 0x5020)
    contents += pack("<I", 4) + b"rawd"
    contents += words(1, 0, 0x1, 0x2, 0)  # BRANCH_STACK with hw_index
    contents += words(2, *range(9)) + words(8, 0xAA, 8)  # REGS_USER, STACK_USER
    contents += words(1, 2, 3) + words(2, 1, 2) + words(1, 2, 3, 4) + words(0)
    (each,) = read(perf_data(SHOP + record(SAMPLE, contents), described), tmp_path)
    assert [frame.address for frame in each.frames] == [0x5010, 0x5020]
    assert labels(each) == {"pid": 7, "tid": 9, "cpu": 3, "event": "cpu-clock"}
    assert (each.weights, each.time_ns) == ((1, 123), 20)


def test_several_events_are_told_apart_by_id(tmp_path: Path) -> None:
    kind = PLAIN | 1 << 16
    attrs = attr(kind, config=0, period=5), attr(kind, config=1, kind=0, period=6)
    stack = pack("<QIIQ", 0x5010, 7, 7, 20) + words(2, CONTEXT_USER, 0x5010)
    samples = b"".join(record(SAMPLE, words(each) + stack) for each in (41, 42, 43))
    (tmp_path / "perf.data").write_bytes(perf_data(SHOP + samples, *attrs, ids=((41, 43), (42,))))
    with Source.open(str(tmp_path / "perf.data")) as source:
        recording = reader_of("perf").read(source)
        assert recording.values == (
            Value("cpu-clock samples"),
            Value("cpu-clock", "nanoseconds"),
            Value("instructions samples"),
            Value("instructions"),
        )
        assert [each.weights for each in recording] == [(1, 5, 0, 0), (0, 0, 1, 6), (1, 5, 0, 0)]


def test_the_dummy_event_of_a_whole_system_is_not_a_value(tmp_path: Path) -> None:
    """`perf record -a` adds it, after the event that was asked for."""
    kind = PLAIN | 1 << 16
    attrs = attr(kind, config=0, period=5), attr(kind, config=9, period=1)
    stack = words(41) + pack("<QIIQ", 0x5010, 7, 7, 20) + words(2, CONTEXT_USER, 0x5010)
    content = perf_data(SHOP + record(SAMPLE, stack), *attrs, ids=((41,), (42,)))
    (tmp_path / "perf.data").write_bytes(content)
    with Source.open(str(tmp_path / "perf.data")) as source:
        recording = reader_of("perf").read(source)
        assert recording.values == (Value(), Value("cpu-clock", "nanoseconds"))
        assert recording.values[recording.shown].name == "cpu-clock"
        assert [each.weights for each in recording] == [(1, 5)]


def test_a_pipe_has_its_events_in_records(tmp_path: Path) -> None:
    build_id = record(67, pack("<i20s4x", -1, b"\2" * 20) + b"/bin/x\0\0", 0)
    mapped = mmap2(7, 0x5000, 0x1000, "/bin/x", 1)
    (each,) = read(piped(build_id + mapped + sample(7, 20, CONTEXT_USER, 0x5010)), tmp_path)
    module = each.frames[0].module
    assert module is not None and module.build_id == b"\2" * 20


def test_compressed_records_may_be_cut_anywhere(tmp_path: Path) -> None:
    plain = SHOP + b"".join(sample(7, 20 + each, CONTEXT_USER, 0x5010 + each) for each in range(50))
    packed = zstandard.ZstdCompressor().compress(plain)
    parts = b"".join(record(COMPRESSED, packed[at : at + 40]) for at in range(0, len(packed), 40))
    assert len(read(perf_data(parts), tmp_path)) == 50


def test_a_compressed_bomb_takes_no_memory(tmp_path: Path) -> None:
    skipped = record(200, bytes(0xFFF0))
    packed = zstandard.ZstdCompressor().compress(skipped * 8000)  # half a gigabyte
    parts = b"".join(record(COMPRESSED, packed[at : at + 60000]) for at in range(0, len(packed), 60000))
    assert len(read(perf_data(parts + SHOP + sample(7, 20, CONTEXT_USER, 0x5010)), tmp_path)) == 1


def test_records_of_unknown_kinds_and_what_follows_auxtrace_are_passed_over(tmp_path: Path) -> None:
    trace = record(71, words(100, 0, 0, 0, 0)) + b"\xff" * 100
    unknown = record(60, b"\1" * 24) + record(250, b"")
    assert len(read(perf_data(unknown + trace + SHOP + sample(7, 20, CONTEXT_USER, 0x5010)), tmp_path)) == 1


def test_losses_are_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lost = record(2, words(1, 5) + end_of(7, 9)) * 3
    (each,) = read(perf_data(lost + SHOP + sample(7, 20, CONTEXT_USER, 0x5010)), tmp_path)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "perf dropped 15 records as it could not keep up: samples are missing"
    ]
    assert not each.process.is_whole


def test_perf_that_was_killed_left_no_size(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = SHOP + sample(7, 20, CONTEXT_USER, 0x5010)
    assert len(read(perf_data(records + b"\1\0\0", is_cut=True), tmp_path)) == 1
    assert "perf was ended before it finished the file" in caplog.text
    assert "the last record is cut off" in caplog.text


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        (pack("<IHH", 9, 0, 7), "record of 7 bytes, must have 8 or more"),
        (record(SAMPLE, bytes(10)), "sample needs 32 bytes, has 10"),
        (record(SAMPLE, bytes(24) + words(5)), "sample: call chain of 5 entries, 0 bytes"),
        (record(10, bytes(30)), "record needs 64 bytes, has 30"),
        (record(DEFERRED, words(1, 1 << 61)), "deferred call chain of 2305843009213693952 entries, 0 bytes are left"),
        (record(COMPRESSED, b"not zstd"), "cannot be decompressed"),
    ],
)
def test_what_breaks_a_rule_is_refused(tmp_path: Path, records: bytes, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(perf_data(records), tmp_path)
    assert problem in str(caught.value) and "data+0x" in str(caught.value)


def test_a_field_that_is_not_known_yet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="sample_type 0x80000000, only the bits of 0x1ffffff are known"):
        read(perf_data(b"", attr(1 << 31)), tmp_path)


@pytest.mark.parametrize("kept_bytes", [8, 40])
def test_a_file_that_is_cut_off_after_its_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kept_bytes: int
) -> None:
    """The features stand behind the records: what is not there any more says nothing."""
    content = (ROOT / "testdata" / "perf" / "hot.dwarf.data").read_bytes()
    start, size_bytes = unpack_from("<QQ", content, 40)
    whole = len(read(content, tmp_path))
    assert not caplog.records
    assert len(read(content[: start + size_bytes + kept_bytes], tmp_path)) == whole
    assert "the file is cut off after its records: some build ids or names of events are missing" in caplog.text
