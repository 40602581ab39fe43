"""Profiles that are written for pprof: names for each function, everything else as it was, rules of its own parser."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from icf.errors import IcfError
from tests.support.answers import ORDER, PAYMENT, UNKNOWN, either, left_out, unique, unmerged
from tests.support.profiles import ProfileMaker, check_valid, pprof_command
from tests.support.recordings import read
from unwind.readers.profile_proto import Profile
from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.samples.recording import (
    Base,
    Inlined,
    Label,
    RecordedFrame,
    RecordedModule,
    RecordedProcess,
    Recording,
    Sample,
    Value,
)
from unwind.symbolize.answer import Answer
from unwind.writers.named import Ambiguous, Namer
from unwind.writers.pprof import PprofWriter

MODULE = RecordedModule("/bin/shop", bytes.fromhex("abcdef"), Base.RUN_TIME, 0x5000, 0x7000, 0x1000)
PROCESS = RecordedProcess(modules=[MODULE])


def write(recording: Recording, answers: Sequence[tuple[Answer, ...]], how: Ambiguous = Ambiguous.JOINED) -> bytes:
    writer = PprofWriter(recording, Namer(how))
    resolved = [Resolved(sample, StackAnswers(each)) for sample, each in zip(recording, answers, strict=True)]
    assert b"".join([writer.write(each) for each in resolved]) == b""
    return b"".join(writer.end())


def parse(content: bytes) -> Profile:
    profile = Profile.FromString(gzip.decompress(content))
    check_valid(profile)
    return profile


def stacks(profile: Profile) -> list[list[str]]:
    """Return the names of each sample, innermost first; inlined functions stand before the one that has the code."""
    strings = [each.decode() for each in profile.string_table]
    functions = {each.id: strings[each.name] for each in profile.function}
    lines = {each.id: [functions[line.function_id] for line in each.line] for each in profile.location}
    return [[name for each in sample.location_id for name in lines[each]] for sample in profile.sample]


def two_calls() -> ProfileMaker:
    """A profile with one body below two callers, in which another tool named one of the two functions."""
    maker = ProfileMaker(("samples", "count"), ("cpu", "nanoseconds"))
    module = maker.mapping("/bin/shop", 0x5000, 0x7000, 0x1000, "abcdef")
    libc = maker.mapping("/lib/libc.so.6", 0x9000, 0xA000)
    grow = maker.location(0x5136, module, ("List<Order>::grow()", "list.h", 20), is_folded=True)
    callers = [maker.location(each, module, ("main", "main.cc", 5)) for each in (0x5180, 0x5190)]
    start = maker.location(0x9100, libc, ("start_call", "libc.c", 1))
    maker.sample([grow, callers[0], start], [1, 10], thread="main", size=4096)
    maker.sample([grow, callers[1], start], [2, 20])
    message = maker.message
    message.comment.append(maker.string("made by hand"))
    message.drop_frames, message.keep_frames = maker.string("malloc"), maker.string("main")
    message.period_type.type, message.period_type.unit = maker.string("cpu"), maker.string("nanoseconds")
    message.period, message.time_nanos, message.duration_nanos = 10_000_000, 1_700_000_000, 500
    message.default_sample_type, message.doc_url = maker.string("cpu"), maker.string("https://example.org")
    return maker


ANSWERS = [
    (unique(0x5136, ORDER), unmerged(0x5180, "main"), unmerged(0x9100, "__libc_start_call_main")),
    (unique(0x5136, PAYMENT), unmerged(0x5190, "main"), unmerged(0x9100, "__libc_start_call_main")),
]


def test_one_address_has_a_location_for_each_function_that_it_is() -> None:
    profile = parse(write(read("pprof", two_calls().write()), ANSWERS))
    assert [names[0] for names in stacks(profile)] == ["List<Order>::grow()", "List<Payment>::grow()"]
    first, second = (sample.location_id[0] for sample in profile.sample)
    grows = {each.id: each for each in profile.location if each.id in (first, second)}
    assert first != second and {(each.address, each.mapping_id, each.is_folded) for each in grows.values()} == {
        (0x5136, 1, False)
    }
    assert (grows[first].line[0].line, grows[first].line[0].column) == (20, 7)


def test_everything_else_of_a_profile_stays_as_it_was() -> None:
    maker = two_calls()
    profile = parse(write(read("pprof", maker.write()), ANSWERS))
    for field in (
        "sample_type",
        "comment",
        "drop_frames",
        "keep_frames",
        "period_type",
        "period",
        "time_nanos",
        "duration_nanos",
        "default_sample_type",
        "doc_url",
    ):
        assert getattr(profile, field) == getattr(maker.message, field), field
    before, after = list(maker.message.string_table), list(profile.string_table)
    assert after[: len(before)] == before
    for old, new in zip(maker.message.sample, profile.sample, strict=True):
        assert (old.value, old.label) == (new.value, new.label)
    assert profile.mapping[0].has_functions and profile.mapping[0].has_line_numbers and profile.mapping[0].has_filenames
    assert profile.mapping[1] == maker.message.mapping[1]


def test_a_mapping_without_merged_functions_keeps_its_names() -> None:
    maker = two_calls()
    profile = parse(write(read("pprof", maker.write()), ANSWERS))
    assert [names[-1] for names in stacks(profile)] == ["start_call", "start_call"]
    assert maker.message.location[3] in profile.location


def test_frames_that_nothing_names_stay_as_they_were() -> None:
    maker = two_calls()
    profile = parse(write(read("pprof", maker.write()), [(UNKNOWN,) * 3] * 2))
    assert sorted(profile.location, key=lambda each: each.id) == list(maker.message.location)
    assert list(profile.sample) == list(maker.message.sample)
    assert list(profile.mapping) == list(maker.message.mapping)


@pytest.mark.parametrize(
    ("how", "shown"),
    [
        (Ambiguous.JOINED, "List<Order>::grow() | List<Payment>::grow()"),
        (Ambiguous.FIRST, "List<Order>::grow()"),
        (Ambiguous.BODY, "List<Order>::grow() [one of 2]"),
    ],
)
def test_a_frame_that_can_be_several_stays_folded(how: Ambiguous, shown: str) -> None:
    answers = [(either(0x5136), *ANSWERS[0][1:]), ANSWERS[1]]
    profile = parse(write(read("pprof", two_calls().write()), answers, how))
    assert stacks(profile)[0][0] == shown
    folded = {each.id: each.is_folded for each in profile.location}
    assert [folded[sample.location_id[0]] for sample in profile.sample] == [True, False]


def test_what_is_written_is_read_again_as_it_was() -> None:
    content = write(read("pprof", two_calls().write()), ANSWERS)
    assert write(read("pprof", content), [(UNKNOWN,) * 3] * 2) == content
    assert write(read("pprof", content), ANSWERS) == write(read("pprof", content), ANSWERS)


def frame(address: int) -> RecordedFrame:
    return RecordedFrame(address, MODULE)


def test_samples_of_other_formats_are_added_up() -> None:
    grow, main = frame(0x5136), frame(0x5181)
    answers = unique(0x5136, ORDER, 0x1136), unmerged(0x5181, "main", 0x1180)
    comm = Label("comm", "shop")
    samples = [
        Sample((grow, main), PROCESS, (1, 10), (comm,), 1_000),
        Sample((grow, main), PROCESS, (2, 20), (comm,), 5_000),
        Sample((grow, main), PROCESS, (4, 40), (comm, Label("size", -7, "bytes")), 3_000),
    ]
    recording = Recording("x", samples, (Value(), Value("cpu", "nanoseconds")))
    profile = parse(write(recording, [answers] * 3))
    assert stacks(profile) == [["List<Order>::grow()", "main"]] * 2
    assert [list(sample.value) for sample in profile.sample] == [[3, 30], [4, 40]]
    assert profile.duration_nanos == 4_000
    (mapping,) = profile.mapping
    assert (mapping.memory_start, mapping.memory_limit, mapping.file_offset) == (0x5000, 0x7000, 0x1000)
    # the second address is a return address as on the stack; in pprof it is less one
    assert [each.address for each in profile.location] == [0x5136, 0x5180]
    again = list(read("pprof", write(recording, [answers] * 3)))
    assert again[0].process.modules == [MODULE] and again[1].labels == (comm, Label("size", -7, "bytes"))


def test_the_first_mapping_is_that_of_the_program() -> None:
    libc, shell = RecordedModule("/lib/libc.so.6"), RecordedModule("/bin/sh")
    most, other = RecordedProcess(2, [MODULE, libc]), RecordedProcess(1, [shell, libc])
    found = [Sample((RecordedFrame(0x10, libc),), process) for process in (other, most, most)]
    profile = parse(write(Recording("x", found), [(UNKNOWN,)] * 3))
    names = [profile.string_table[each.filename].decode() for each in profile.mapping]
    assert names == [MODULE.path, libc.path]


def test_offsets_become_addresses_as_linked() -> None:
    module = RecordedModule("/bin/shop", base=Base.OFFSET)
    recording = Recording("x", [Sample((RecordedFrame(0x136, module),), RecordedProcess(modules=[module]))])
    profile = parse(write(recording, [(unique(0x136, ORDER, 0x1136),)]))
    assert profile.location[0].address == 0x1136 and profile.mapping[0].memory_start == 0


def test_inlined_functions_are_lines_and_tail_calls_locations() -> None:
    answer = unique(0x5136, ORDER, inlined="_Z4copyv", missing=(left_out(PAYMENT),))
    profile = parse(write(Recording("x", [Sample((frame(0x5136),), PROCESS)]), [(answer,)]))
    assert stacks(profile) == [["copy()", "List<Order>::grow()", "List<Payment>::grow()"]]
    assert [(each.address, len(each.line)) for each in profile.location] == [(0x5136, 2), (0, 1)]


def test_what_the_recording_says_is_kept_where_nothing_is_known() -> None:
    recorded = RecordedFrame(0x10, None, "outer", "a.c", 7, inlined=(Inlined("inner", "b.h", 3),))
    profile = parse(write(Recording("x", [Sample((recorded,), PROCESS)]), [(UNKNOWN,)]))
    assert stacks(profile) == [["inner", "outer"]] and [line.line for line in profile.location[0].line] == [3, 7]


def test_a_weight_that_does_not_fit_is_refused() -> None:
    recording = Recording("x", [Sample((frame(0x10),), PROCESS, (1 << 63,))])
    with pytest.raises(IcfError, match="pprof: 9223372036854775808 does not fit 64 bits"):
        write(recording, [(UNKNOWN,)])


def test_pprof_shows_each_function(tmp_path: Path) -> None:
    """pprof would shorten both to List::grow, and look names up itself in what is not named."""
    path = tmp_path / "p.pb.gz"
    path.write_bytes(write(read("pprof", two_calls().write()), ANSWERS))
    command = [pprof_command(), "-sample_index=samples", "-functions", "-top", "-nodecount=9", str(path)]
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    top = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert top.returncode == 0, top.stderr
    flat = {" ".join(line.split()[5:]): line.split()[0] for line in top.stdout.splitlines()[3:]}
    assert flat["List<Order>::grow()"] == "1" and flat["List<Payment>::grow()"] == "2", top.stdout + top.stderr
