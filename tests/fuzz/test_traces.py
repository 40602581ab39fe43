"""Mutated traces: each is read or refused with one line, soon, in little memory."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

from icf.elf.types import Machine
from icf.errors import IcfError
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support.core_traces import recorded, write_cores
from tests.support.mutations import mutated_text
from tests.support.traces import ALL_ASM, write_loop
from unwind.samples.recording import RecordedModule, RecordedProcess
from unwind.trace import columns as c
from unwind.trace.container import TraceFile
from unwind.trace.cores import samples_of_cores
from unwind.trace.decode import DecodeCache, machine_of
from unwind.trace.lackey import convert
from unwind.trace.modules import parse_modules
from unwind.trace.reader import TraceReader
from unwind.trace.seek import seek_instruction, seek_time
from unwind.trace.show import as_json, as_text, objects
from unwind.trace.stacks import TraceStacks
from unwind.trace.writer import TraceWriter

MUTATION_COUNT = many(1000)
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
            if chance.randrange(2):
                process = RecordedProcess(modules=[RecordedModule("shop")])
                for sample in TraceStacks(reader, process, [(0x400000, 0x500000)]).samples():
                    assert sample.weights[0] > 0 and sample.frames[0].address is not None
                return 0
            for made in objects(reader, lambda reader: DecodeCache(machine_of(reader.state[c.FILETYPE], ""))):
                assert "\n" not in as_json(made) + as_text(made)
    except IcfError as error:
        assert "\n" not in str(error)
        return 1
    return 0


def test_mutated_traces_of_cores_are_read_or_refused(tmp_path: Path) -> None:
    chance = random.Random(2)
    threads = {tid: recorded(ALL_ASM) for tid in (5, 6)}
    folder = write_cores(tmp_path / "cores", threads, core_count=3, quantum=30, chance=chance)
    files = [tmp_path / f"drmemtrace.core.{core:06}.trace" for core in range(3)]
    inputs = []
    for path in sorted(folder.iterdir()):
        with TraceFile(str(path)) as file:
            inputs.append(b"".join(block for block in file.blocks(0)))
    process = RecordedProcess(modules=[RecordedModule("shop")])
    outcomes = [0, 0]
    before = reset_peak_memory()
    with alarms():
        soon(120)
        for number in range(MUTATION_COUNT // 2):
            for idx, path in enumerate(files):
                path.write_bytes(mutated_text(inputs[idx], PIECES, chance) if idx == number % 3 else inputs[idx])
            try:
                for sample in samples_of_cores([*map(str, files)], process, [], is_whole=True):
                    assert sample.weights[0] > 0
                outcomes[0] += 1
            except IcfError as error:
                assert "\n" not in str(error)
                outcomes[1] += 1
    assert min(outcomes) > MUTATION_COUNT // 200
    assert peak_memory() - before < MEMORY_LIMIT_BYTES


def test_mutated_traces_are_read_or_refused(tmp_path: Path) -> None:
    chance = random.Random(1)
    plain = write_loop(tmp_path / "a.trace", rounds=6).read_bytes()
    inputs = [plain, plain, gzip.compress(plain, mtime=0), ALL_ASM.read_bytes()]
    outcomes = [0, 0]
    before = reset_peak_memory()
    path = tmp_path / "mutated"
    with alarms():
        soon(120)
        for number in range(MUTATION_COUNT):
            path.write_bytes(mutated_text(inputs[number % len(inputs)], PIECES, chance))
            outcomes[read_anyhow(path, chance)] += 1
        for size in range(0, len(plain), 5):
            path.write_bytes(plain[:size])
            assert read_anyhow(path, random.Random(3)) == 1
    assert min(outcomes) > MUTATION_COUNT // 100
    assert peak_memory() - before < MEMORY_LIMIT_BYTES


MODULES = b"""Module Table: version 5, count 2
Columns: id, containing_id, start, end, entry, offset, preferred_base, (custom fields), path
  0,   0, 0x00007f0000000000, 0x00007f0000001000, 0x0, 0000000000000000, 0x0000000000000000, v#1,0, /bin/shop
  1,   0, 0x00007f0000001000, 0x00007f0000004000, 0x0, 0000000000001000, 0x0000000000001000, v#1,3,\n,\n /bin/shop
"""
LOG = b"==1== Lackey\nI  00401000,5\n S 7ffe0000,8\nI  00401005,1\n L 7ffe0000,8\nI  00401000,5\n"
TEXT_PIECES = (b"\n", b",", b"0x", b"v#1,9,", b"I  ", b"9" * 30, b"\0", b" L ")


def test_mutated_lists_and_logs_are_read_or_refused(tmp_path: Path) -> None:
    chance = random.Random(2)
    outcomes = [0, 0, 0, 0]
    with alarms():
        soon(60)
        for number in range(MUTATION_COUNT):
            try:
                if number % 2:
                    parse_modules(mutated_text(MODULES, TEXT_PIECES, chance), "m")
                else:
                    with TraceWriter(str(tmp_path / "a.trace")) as trace:
                        lines = mutated_text(LOG, TEXT_PIECES, chance).splitlines(keepends=True)
                        convert(lines, "log", lambda at, size: bytes(size), Machine.X86_64, trace)
                outcomes[number % 2] += 1
            except IcfError as error:
                assert "\n" not in str(error)
                outcomes[2 + number % 2] += 1
    assert min(outcomes) > MUTATION_COUNT // 50
