"""Ten thousand mutations of each kind of profile: each is read or refused with one line, soon."""

from __future__ import annotations

import gzip
import json
import random
from array import array
from itertools import islice

import pytest

from icf.errors import IcfError
from icf.model import Verdict
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support import firefox, profiles
from tests.support.answers import ORDER, either, unique, unmerged
from tests.support.mutations import mutated_text
from tests.support.profiles import ProfileMaker
from tests.support.recordings import read, recognizes
from unwind.readers.profile_proto import Profile
from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.samples.recording import RecordedFrame, Recording
from unwind.symbolize.answer import Answer
from unwind.writers.formats import open_writer
from unwind.writers.named import Namer

FORMATS = {"heap by thread": "heap"}
MUTATION_COUNT = many(10_000)
WRITTEN_COUNT = many(1000)
TIME_LIMIT_S = 120
MEMORY_LIMIT_BYTES = 400 << 20
SAMPLES_READ = 1000  # of each mutation


def pprof() -> bytes:
    maker = ProfileMaker(("samples", "count"), ("cpu", "nanoseconds"))
    module = maker.mapping("/bin/shop", 0x1000, 0x2000, 0x400, "abcdef")
    leaf = maker.location(0x1010, module, ("copy", "list.h", 3), ("run", "a.c", 9), is_folded=True)
    main = maker.location(0x1020, module, ("main", "a.c", 90))
    kernel = maker.location(0xFFFFFFFF81000010, maker.mapping("[kernel.kallsyms]"), ("do_syscall_64", "", 0))
    maker.sample([leaf, main], [1, 10_000_000], thread="main", size=4096)
    maker.sample([kernel, leaf, main], [2, 20_000_000])
    maker.message.comment.append(maker.string("a comment"))
    maker.message.period_type.type = maker.string("cpu")
    return maker.message.SerializeToString()


MAPS = b"""55d0a0001000-55d0a0003000 r-xp 00001000 fe:00 338944                     /bin/shop
7fff1495c000-7fff1497d000 rw-p 00000000 00:00 0           [stack]
"""
GPERFTOOLS = b"""heap profile:    13:   5120 [    41:  17408] @ heapprofile
     3:     1024 [    10:     4096] @ 0x55d0a0001136 0x55d0a0001180

MAPPED_LIBRARIES:
"""
JEMALLOC = b"""heap_v2/524288
  t*: 13: 6688 [0: 0]
  t0: 13: 6688 [0: 0] main
@ 0x55d0a0001136 0x55d0a0001180
  t*: 13: 6688 [20: 9000]
  t0: 13: 6688 [20: 9000]

MAPPED_LIBRARIES:
"""
HEAPTRACK = b"""v 10400 3
x 9 /bin/shop
m 1 -
m 1 x 55d0a0000000 0 7a4 1000 2000
m 9 /lib/c.so 7f0012340000 0 9000
t 55d0a0001136 0
t 7f0012345678 1
+ 64 2 5615bcb6f1d0
+ 64 1 5615bcb6f390
- 5615bcb6f1d0
"""
MASSIF = b"""desc: (none)
cmd: ./shop
time_unit: i
heap_tree=detailed
n0: 0 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
#-----------
heap_tree=peak
n2: 1288 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n1: 1000 0x10998C: Pool<Order>::grow(int) (alloc.cpp:5)
  n1: 1000 0x10998C: Pool<Order>::add(int) (alloc.cpp:6)
   n0: 1000 in 2 places, all below massif's threshold (1.00%)
 n0: 288 0x401AB9F: ??? (in /lib/ld.so)
"""
WORDS = (0, 3, 0, 10_000, 0, 3, 2, 0x55D0A0001136, 0x55D0A0001180, 1, 1, 0x10, 0, 1, 0)
PROFILES = {
    "collapsed": b"# head\nmain;List<Order>::grow();[libshop.so+0x1136] 12\nmain;shop+0x1180;0x7f0012345678 0.5\n",
    "firefox": json.dumps(firefox.profile(), separators=(",", ":")).encode(),
    "gperftools-cpu": array("Q", WORDS).tobytes() + MAPS,
    "heap": GPERFTOOLS + MAPS,
    "heaptrack": HEAPTRACK,
    "massif": MASSIF,
    "heap by thread": JEMALLOC + MAPS,
    "pprof": pprof(),
}
PIECES = (
    b"\xff" * 10,
    b"\0",
    b"\x80" * 9 + b"\x01",
    b"\x22\x00",
    b" ",
    b"\n",
    b"0x",
    b";",
    b":",
    b"9" * 25,
    b"-",
    b"[",
    b"{",
)


def check(recording: Recording) -> None:
    """Walk the samples; what they hold must be within bounds."""
    for sample in islice(recording, SAMPLES_READ):
        assert len(sample.weights) == len(recording.values) > 0
        for frame in sample.frames:
            assert frame.address is None or 0 <= frame.address < 1 << 64
            assert frame.module is None or frame.module in sample.process.modules


@pytest.mark.parametrize("name", PROFILES)
def test_mutated_profiles_are_read_or_refused(name: str) -> None:
    chance = random.Random(1)
    outcomes = [0, 0]
    before = reset_peak_memory()  # of the tests that this process ran
    with alarms():
        soon(TIME_LIMIT_S)
        for _ in range(MUTATION_COUNT):
            data = mutated_text(PROFILES[name], PIECES, chance)
            recognizes(FORMATS.get(name, name), data)
            try:
                check(read(FORMATS.get(name, name), data))
                outcomes[0] += 1
            except IcfError as error:
                assert "\n" not in str(error)
                outcomes[1] += 1
    assert min(outcomes) > MUTATION_COUNT // 50  # neither all good nor all bad
    assert peak_memory() - before < MEMORY_LIMIT_BYTES


def answer(frame: RecordedFrame) -> Answer:
    """Return an answer as it could be: each of the kinds, by the address."""
    if frame.address is None or frame.module is None or frame.address % 4 == 0:
        return Answer(frame.address, Verdict.UNKNOWN)
    if frame.address % 4 == 1:
        return unmerged(frame.address, "main", frame.address)
    return unique(frame.address, ORDER, frame.address) if frame.address % 4 == 2 else either(frame.address)


@pytest.mark.parametrize("name", PROFILES)
def test_mutated_profiles_are_written_in_each_format(name: str) -> None:
    chance = random.Random(3)
    written = 0
    with alarms():
        soon(TIME_LIMIT_S)
        for _ in range(WRITTEN_COUNT):
            content = mutated_text(PROFILES[name], PIECES, chance)
            for out in ("pprof", "collapsed", "firefox"):
                try:
                    recording = read(FORMATS.get(name, name), content)
                    writer = open_writer(out, recording, Namer())
                    for sample in islice(recording, SAMPLES_READ):
                        writer.write(Resolved(sample, StackAnswers([answer(frame) for frame in sample.frames])))
                    result = b"".join(writer.end())
                except IcfError as error:
                    assert "\n" not in str(error)
                    continue
                written += 1
                if out == "pprof":
                    profiles.check_valid(Profile.FromString(gzip.decompress(result)))
    assert written > WRITTEN_COUNT // 50


@pytest.mark.parametrize("name", PROFILES)
def test_truncated_and_damaged_files_are_read_or_refused(name: str) -> None:
    packed = gzip.compress(PROFILES[name], mtime=0)
    chance = random.Random(2)
    damaged = [PROFILES[name][:size] for size in range(len(PROFILES[name]))]
    damaged += [packed[:size] for size in range(0, len(packed), 7)]
    damaged += [mutated_text(packed, PIECES, chance) for _ in range(many(500))]
    for data in damaged:
        try:
            check(read(FORMATS.get(name, name), data))
        except IcfError as error:
            assert "\n" not in str(error)
