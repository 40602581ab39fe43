"""Ten thousand mutations of a jitdump that a recording has mapped: functions, or one line that refuses it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support import jitdump as j
from tests.support import perf_data as p
from unwind.process.jit.jitdump import JitDump
from unwind.readers.formats import reader_of
from unwind.readers.source import Source

MUTATION_COUNT, RECORDING_COUNT = many(10_000), many(500)
LONGEST_S, MEMORY_BYTES = 5, 1 << 28
PID, CODE = 77, 0x7F0000001000
CONTENT = b"".join(
    (
        j.header(PID),
        j.lines(CODE, [(CODE, 10, 1, b"a.js"), (CODE + 4, 11, 1, b"\xff")], 9),
        j.load(b"first", CODE, bytes(16), 1, 10),
        j.load(b"second", CODE, bytes(32), 2, 30),
        j.record(4, bytes(24), 31),
        j.load(b"third", CODE + 0x100, bytes(16), 3, 40),
        j.move(CODE + 0x100, CODE + 0x200, 16, 3, 50),
    )
)


def mutated(rng: random.Random) -> bytes:
    changed = bytearray(CONTENT[: rng.choice((len(CONTENT), rng.randrange(1, len(CONTENT))))])
    for _ in range(rng.choice((1, 1, 2, 4))):
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


@pytest.mark.slow
def test_histories(tmp_path: Path) -> None:
    rng, path, outcomes = random.Random(7), tmp_path / f"jit-{PID}.dump", [0, 0]
    before = reset_peak_memory()
    with alarms():
        for _ in range(MUTATION_COUNT):
            path.write_bytes(mutated(rng))
            soon(LONGEST_S)
            dump = JitDump("f")
            with path.open("rb") as file:
                steps, problem = dump.history(file.fileno())
            assert steps == sorted(steps, key=lambda step: step.time)
            assert all(dump.code(step.start, step.function, step.start).start == step.start for step in steps)
            assert problem is None or str(problem).startswith("f: jitdump+")
            outcomes[problem is None] += 1
    assert min(outcomes) > MUTATION_COUNT // 50
    assert peak_memory() - before < MEMORY_BYTES


@pytest.mark.slow
def test_recordings_with_one(tmp_path: Path) -> None:
    rng, path, outcomes = random.Random(8), tmp_path / f"jit-{PID}.dump", [0, 0]
    path.write_bytes(CONTENT)
    status = path.stat()
    records = p.mmap2(PID, CODE << 1, 0x1000, str(path), 2, file_id=(status.st_dev, status.st_ino))
    for time in (5, 20, 45, 60):
        for address in (CODE, CODE + 20, CODE + 0x104, CODE + 0x204):
            records += p.sample(PID, time, p.CONTEXT_USER, address)
    data = tmp_path / "p"
    data.write_bytes(p.perf_data(records, p.attr(flags=p.SAMPLE_ID_ALL | p.USE_CLOCK_ID, clock_id=1)))
    with alarms():
        for _ in range(RECORDING_COUNT):
            path.write_bytes(mutated(rng))  # in place: it stays the same file
            soon(LONGEST_S)
            with Source.open(str(data)) as source:
                named = [bool(sample.frames[0].name) for sample in reader_of("perf").read(source)]
            assert len(named) == 16
            outcomes[any(named)] += 1
    assert min(outcomes) > RECORDING_COUNT // 50
