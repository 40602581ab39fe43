"""Mutated traces: each is read or refused with one line, soon, in little memory."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

from icf.errors import IcfError
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support.mutations import mutated_text
from tests.support.traces import ALL_ASM, write_loop
from unwind.trace import columns as c
from unwind.trace.container import TraceFile
from unwind.trace.decode import DecodeCache, machine_of
from unwind.trace.reader import TraceReader
from unwind.trace.seek import seek_instruction, seek_time
from unwind.trace.show import as_json, as_text, objects

MUTATION_COUNT = 1000
MEMORY_LIMIT_BYTES = 100 << 20
PIECES = tuple(struct.pack("<HHQ", *row) for row in ((28, 21, 0), (22, 4, 9), (26, 0, 0), (47, 8, 0), (28, 27, 0)))


def read_anyhow(path: Path, chance: random.Random) -> int:
    """Read a file; return whether it was read or refused."""
    try:
        with TraceFile(str(path)) as file:
            reader = TraceReader(file, 0xFF)
            kind = chance.randrange(3)
            if kind == 1:
                seek_instruction(reader, chance.randrange(150))
            elif kind == 2:
                seek_time(reader, 13352268558646800 + chance.randrange(60))
            for made in objects(reader, lambda reader: DecodeCache(machine_of(reader.state[c.FILETYPE], ""))):
                assert "\n" not in as_json(made) + as_text(made)
    except IcfError as error:
        assert "\n" not in str(error)
        return 1
    return 0


def test_mutated_traces_are_read_or_refused(tmp_path: Path) -> None:
    chance = random.Random(1)
    plain = write_loop(tmp_path / "a.trace", rounds=6).read_bytes()
    inputs = [plain, plain, gzip.compress(plain, mtime=0), ALL_ASM.read_bytes()]
    outcomes = [0, 0]
    before = reset_peak_memory()
    path = tmp_path / "mutated"
    with alarms():
        soon(120)
        for number in range(many(MUTATION_COUNT)):
            path.write_bytes(mutated_text(inputs[number % len(inputs)], PIECES, chance))
            outcomes[read_anyhow(path, chance)] += 1
        for size in range(0, len(plain), 5):
            path.write_bytes(plain[:size])
            assert read_anyhow(path, random.Random(3)) == 1
    assert min(outcomes) > MUTATION_COUNT // 50
    assert peak_memory() - before < MEMORY_LIMIT_BYTES
