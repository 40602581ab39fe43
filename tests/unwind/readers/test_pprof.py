"""pprof's profiles: how addresses are meant, what is kept, and what is refused."""

from __future__ import annotations

import gzip
import zlib

import pytest

from icf.errors import FormatError, IcfError
from tests.support.profiles import ProfileMaker
from tests.support.recordings import read, recognizes
from unwind.samples.recording import Base, Inlined, Label, Losses, RecordedModule, Value

SAMPLES, CPU = ("samples", "count"), ("cpu", "nanoseconds")

# A whole profile, a field in each line
PROFILE = bytes.fromhex(
    "0a 04 0801 1002"  # sample_type: type 1, unit 2
    "12 06 0a0101 120105"  # sample: location_id [1], value [5]
    "1a 12 0801 10808001 18808002 2000 2803 3004 3801"  # mapping 1, 0x4000 to 0x8000, offset 0, filename 3, build_id 4
    "22 0e 0801 1001 18908101 2204 0801 1007"  # location 1 in mapping 1, 0x4090, line: function 1, line 7
    "2a 06 0801 1005 2006"  # function 1, name 5, filename 6
    "32 00 3207 73616d706c6573 3205 636f756e74 3204 73686f70 3204 61626364 3203 72756e 3203 612e63"  # strings
)


def test_a_profile_byte_for_byte() -> None:
    recording = read("pprof", PROFILE)
    (sample,) = recording
    (frame,) = sample.frames
    assert recording.values == (Value("samples", "count"),) and recording.losses is Losses.FRAME_POINTERS
    assert sample.weights == (5,) and not sample.is_called
    assert (frame.address, frame.name, frame.file, frame.line) == (0x4090, "run", "a.c", 7)
    assert frame.module == RecordedModule("shop", bytes.fromhex("abcd"), Base.RUN_TIME, 0x4000, 0x8000, 0)
    assert sample.process.modules == [frame.module]


@pytest.mark.parametrize(
    ("names", "default", "shown"),
    [
        (["samples", "cpu"], "", "cpu"),
        (["samples", "cpu"], "samples", "samples"),
        (["alloc_space", "inuse_space", "other"], "", "inuse_space"),
        (["alloc_space", "inuse_space"], "alloc_space", "alloc_space"),
        (["samples"], "gone", "samples"),
    ],
)
def test_the_value_that_is_shown(names: list[str], default: str, shown: str) -> None:
    maker = ProfileMaker(*((name, "count") for name in names))
    maker.message.default_sample_type = maker.string(default)
    recording = read("pprof", maker.write())
    assert recording.values[recording.shown].name == shown


@pytest.mark.parametrize("size_bytes", range(1, len(PROFILE)))
def test_a_truncated_profile_is_refused_or_lacks_only_whole_fields(size_bytes: int) -> None:
    try:
        assert len(list(read("pprof", PROFILE[:size_bytes]))) <= 1
    except FormatError as error:
        assert str(error).startswith("f: profile+0x")


def test_weights_labels_and_inlined_functions() -> None:
    maker = ProfileMaker(SAMPLES, CPU)
    module = maker.mapping("/bin/shop (deleted)", 0x1000, 0x2000, 0x400)
    leaf = maker.location(0x1010, module, ("copy", "list.h", 3), ("run", "a.c", 9))
    maker.sample([leaf, leaf], [1, 10_000_000], thread="main", size=4096)
    maker.sample([leaf], [-2, 0])
    first, second = read("pprof", maker.write())
    assert first.weights == (1, 10_000_000) and second.weights == (-2, 0)
    assert first.labels == (Label("thread", "main"), Label("size", 4096, "bytes")) and second.labels == ()
    assert first.frames[0] is first.frames[1] is second.frames[0]
    frame = first.frames[0]
    assert frame.inlined == (Inlined("copy", "list.h", 3),) and (frame.name, frame.line) == ("run", 9)
    assert frame.module is not None and frame.module.path == "/bin/shop" and frame.module.offset == 0x400


def test_a_mapping_at_zero_holds_linked_addresses() -> None:
    maker = ProfileMaker(SAMPLES)
    module = maker.mapping("/bin/shop", 0, 0, 0, "Kx1-go/build-id")
    maker.sample([maker.location(0x401136, module)], [1])
    (frame,) = next(iter(read("pprof", maker.write()))).frames
    assert frame.address == 0x401136 and frame.module == RecordedModule("/bin/shop")


def test_mappings_of_several_processes_count_by_offset() -> None:
    maker = ProfileMaker(SAMPLES)
    one, other = maker.mapping("/bin/one", 0x1000, 0x3000, 0x200), maker.mapping("/bin/other", 0x2000, 0x4000, 0)
    maker.sample([maker.location(0x1010, one), maker.location(0x2010, other)], [1])
    first, second = next(iter(read("pprof", maker.write()))).frames
    assert first.address == 0x210 and first.module == RecordedModule("/bin/one", base=Base.OFFSET)
    assert second.address == 0x10 and second.module == RecordedModule("/bin/other", base=Base.OFFSET)


def test_kernel_frames_are_certain_and_addresses_outside_of_their_mapping_are_none() -> None:
    maker = ProfileMaker(SAMPLES)
    kernel = maker.mapping("[kernel.kallsyms]_text", 0xFFFFFFFF81000000, 0xFFFFFFFF82000000)
    module = maker.mapping("/bin/shop", 0x1000, 0x2000)
    maker.sample(
        [
            maker.location(0xFFFFFFFF81000010, kernel, ("do_syscall_64", "", 0)),
            maker.location(0x2000, module, ("beyond", "", 0)),
            maker.location(0x5000, 0),
            maker.location(0, 0, ("only_a_name", "", 0)),
        ],
        [1],
    )
    in_kernel, beyond, nowhere, named = next(iter(read("pprof", maker.write()))).frames
    assert in_kernel.is_certain and in_kernel.module is None and in_kernel.name == "do_syscall_64"
    assert beyond.address is None and beyond.module is None and beyond.name == "beyond"
    assert nowhere.address == 0x5000 and nowhere.module is None
    assert named.address is None and named.name == "only_a_name" and not named.is_certain


@pytest.mark.parametrize(("name", "is_called"), [("cpu", False), ("inuse_space", True), ("contentions", True)])
def test_allocations_and_locks_are_sampled_in_calls(name: str, is_called: bool) -> None:
    maker = ProfileMaker((name, "bytes"))
    maker.sample([maker.location(0x10, maker.mapping("shop"))], [1])
    assert next(iter(read("pprof", maker.write()))).is_called is is_called


def test_names_are_any_bytes() -> None:
    maker = ProfileMaker(SAMPLES)
    maker.sample([maker.location(0, 0, ("caf\udce9", "", 0))], [1])
    assert next(iter(read("pprof", maker.write()))).frames[0].name == "caf\udce9"


def changed(**fields: int) -> ProfileMaker:
    """A profile of which a field of the last sample's location or the location's line is another."""
    maker = ProfileMaker(SAMPLES)
    maker.sample([maker.location(0x10, maker.mapping("shop"), ("run", "a.c", 1))], [1])
    for name, value in fields.items():
        what, _, field = name.partition("_")
        message = {
            "sample": maker.message.sample[0],
            "location": maker.message.location[0],
            "line": maker.message.location[0].line[0],
            "function": maker.message.function[0],
            "mapping": maker.message.mapping[0],
            "type": maker.message.sample_type[0],
        }[what]
        if field in ("location_id", "value"):
            getattr(message, field).append(value)
        else:
            setattr(message, field, value)
    return maker


@pytest.mark.parametrize(
    ("maker", "problem"),
    [
        (changed(sample_location_id=7), r"profile\+0x\w+: sample has location 7, which the profile has not"),
        (changed(sample_value=7), r"profile\+0x\w+: sample has 2 values, the profile 1 of one or more"),
        (changed(location_id=0), "locations must have ids, each another one, and none of them 0"),
        (changed(function_id=0), "functions must have ids, each another one, and none of them 0"),
        (changed(location_mapping_id=9), "location 1: there is no mapping 9"),
        (changed(mapping_id=0), "mapping has the id 0, must have one of its own that is not 0"),
        (changed(mapping_filename=99), "string 99: there are 6"),
        (changed(type_unit=-1), "string -1: there are 6"),
        (changed(line_function_id=3), "line of a location: there is no function 3"),
        (changed(function_name=99), "string 99: there are 6"),
    ],
)
def test_what_breaks_a_rule_is_refused(maker: ProfileMaker, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        list(read("pprof", maker.write()))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x0a\x04\x08\x01\x10\x02\x0f\x01", r"profile\+0x6: field of kind 7, must be 0, 1, 2 or 5"),
        (b"\x0a\x04\x08\x01\x10\x02\x10\x01", r"profile\+0x6: field 2 of kind 0 does not belong to a profile"),
        (b"\x0a\x04\x08\x01\x10\x02\x12\x09\x00", r"profile\+0x6: field 2 has no end: it needs 9 bytes"),
        (b"\x48" + b"\x80" * 11, r"profile\+0x1: number has no end in 10 bytes"),
        (b"\x12\x01\x07", r"profile\+0x2: sample cannot be decoded"),
        (b"\x22\x01\x07", r"profile\+0x0: cannot be decoded"),
        (b"\x12\x80\x80\x80\x01" + b"\0" * (1 << 21), r"profile\+0x0: sample has more than 1048576 bytes"),
        (b"\x22\x80\x80\x80\x10" + b"\x22\0" * (1 << 24), "has more than 16777216 locations, functions, lines and"),
    ],
)
def test_what_is_no_message_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        list(read("pprof", content))


def test_damaged_and_unusual_compression_is_refused() -> None:
    packed = gzip.compress(PROFILE, mtime=0)
    with pytest.raises(FormatError, match=r"f: gzip\+0x[0-9a-f]+: data has no end"):
        read("pprof", packed[:-12])
    with pytest.raises(FormatError, match=r"f: gzip\+0x0: data is corrupt"):
        read("pprof", packed[:12] + b"\xff\xff" + packed[14:])
    assert len(list(read("pprof", packed[: len(packed)] + gzip.compress(b"", mtime=0) + b"\0" * 20))) == 1
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([packer.compress(bytes(1 << 20)) for _ in range(70)]) + packer.flush()
    with pytest.raises(IcfError, match="f: gzip: inflates to 7[0-9]+ bytes from 7[0-9]+, the limit is 67108864"):
        read("pprof", bomb)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (PROFILE, True),
        (gzip.compress(PROFILE, mtime=0), True),
        (gzip.compress(PROFILE * 2000, mtime=0)[:300], True),
        (PROFILE[:20], True),
        (b"", False),
        (b"\n", False),
        (b"\nmain;run 12\nmain;run;loop 44\n" * 9, False),
        (b"main;run 12\n", False),
        (b"0x1136 0x1180 x12\n", False),
        (gzip.compress(b'{"meta":{}}', mtime=0), False),
        (b"\x1f\x8b\xff", False),
        (b"\x7fELF\x02\x01\x01", False),
        (b"PERFILE2h\x00", False),
    ],
)
def test_profiles_are_known_by_their_first_fields(head: bytes, expected: bool) -> None:
    assert recognizes("pprof", head) is expected
