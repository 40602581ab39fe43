"""Mutated lists of mappings, perf maps, jitdumps and memory: entries or a FormatError, and none that covers nothing."""

from __future__ import annotations

import os
import random
from pathlib import Path
from struct import pack

from icf.elf.image import Image
from icf.errors import FormatError, IcfError
from tests.fuzz.limits import many
from tests.support.toolchain import compile_object, link
from unwind.process.jit.jitdump import JitDump
from unwind.process.jit.perf_map import PerfMap
from unwind.process.live.memory_image import read_image
from unwind.process.maps import parse_maps

MAPS = b"".join(Path("/proc/self/maps").read_bytes().splitlines(keepends=True)[:12])
PERF_MAP = b"1000 20 f(int)\n0x1010 0x8 py::g:<frozen x>\nffffffffffff0000 ffff JS:*h a.js:1:2\n"
MAPPING_COUNT, PERF_MAP_COUNT, DUMP_COUNT, MEMORY_COUNT = many(3_000), many(3_000), many(4_000), many(2_000)


def mutated(seed: bytes, rng: random.Random, words: bytes) -> bytes:
    content = bytearray(seed)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(max(len(content), 1))
        kind = rng.randrange(8)
        if kind == 0:
            content = content[:at]
        elif kind == 1:
            del content[at : at + rng.randrange(1, 30)]
        elif kind == 2:
            content[at:at] = content[: rng.randrange(1, 60)]
        elif content:
            content[min(at, len(content) - 1)] = rng.choice(words) if kind < 6 else rng.randrange(256)
    return bytes(content)


def rewrite(fd: int, content: bytes) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, content, 0)


def test_lists_of_mappings_survive_mutations() -> None:
    rng = random.Random(60_000)
    read = refused = 0
    for _ in range(MAPPING_COUNT):
        try:
            mappings = parse_maps(mutated(MAPS, rng, b"0123456789abcdefrwxp-: \n/["), "maps")
            assert all(m.start < m.end for m in mappings)
            assert all(a.end <= b.start for a, b in zip(mappings, mappings[1:], strict=False))
            read += 1
        except FormatError as error:
            assert str(error).startswith("maps: maps+0x") and "\n" not in str(error)
            refused += 1
    assert min(read, refused) > MAPPING_COUNT // 30


def test_perf_maps_survive_mutations() -> None:
    rng = random.Random(60_001)
    found = 0
    fd = os.memfd_create("map")
    for _ in range(PERF_MAP_COUNT):
        rewrite(fd, mutated(PERF_MAP, rng, b"0123456789abcdefxX \n\t\r\0\xff"))
        perf_map = PerfMap()
        perf_map.read(fd)
        for address in (0x1000, 0x1012, 0xFFFFFFFFFFFF0001, (1 << 64) - 1):
            code = perf_map.find(address)
            if code is not None:
                found += 1
                assert code.name and code.start <= address < code.start + code.size_bytes <= 1 << 64
    os.close(fd)
    assert found > PERF_MAP_COUNT


def dump_seed(order: str) -> bytes:
    """Lines, a load, a move, another load, the end."""
    lines = pack(f"{order}2Q", 0x1000, 2)
    lines += pack(f"{order}Q2I", 0x1000, 1, 2) + b"a.js\0" + pack(f"{order}Q2I", 0x1008, 3, 4) + b"\xff\0"
    load = pack(f"{order}2I4Q", 7, 8, 0x1000, 0x1000, 16, 1) + b"f\0" + bytes(16)
    move = pack(f"{order}2I5Q", 7, 8, 0x2000, 0x1000, 0x2000, 16, 1)
    other = pack(f"{order}2I4Q", 7, 8, 0x1008, 0x1008, 16, 2) + b"g\0" + bytes(16)
    content = pack(f"{order}6I2Q", 0x4A695444, 1, 40, 62, 0, 7, 5, 0)
    for time, (kind, record) in enumerate(((2, lines), (0, load), (1, move), (0, other), (3, b""))):
        content += pack(f"{order}2IQ", kind, 16 + len(record), time) + record
    return content


def test_jitdumps_survive_mutations() -> None:
    rng = random.Random(60_002)
    fd = os.memfd_create("dump")
    found = refused = 0
    for number in range(DUMP_COUNT):
        content = mutated(dump_seed("<>"[number % 2]), rng, b"\0\1\2\3\4\x10\x7f\xff")
        cut = rng.randrange(len(content) + 1)
        dump = JitDump("jit-7.dump")
        for part in (content[:cut], content):  # it grows while it is read
            rewrite(fd, part)
            try:
                dump.read(fd)
            except FormatError as error:
                assert str(error).startswith("jit-7.dump: jitdump+0x") and "\n" not in str(error)
                refused += 1
        for address in (0x1000, 0x1009, 0x2008, 0x1017):
            code = dump.find(address)
            if code is not None:
                found += 1
                assert code.start <= address < code.start + code.size_bytes <= 1 << 64
    os.close(fd)
    assert found > DUMP_COUNT and refused > DUMP_COUNT // 10


def test_memory_survives_mutations(tmp_path: Path) -> None:
    rng = random.Random(60_003)
    source = 'extern "C" int apples(int value) { return value * 3; }'
    path = link(tmp_path / "a.so", "lld", compile_object(source, "-O1", "-fPIC"), "-shared", "-Wl,--build-id=sha1")
    with Image.open(path) as image:
        loads = [segment for segment in image.segments if segment.type == 1]
        memory = bytearray(max(s.vaddr + s.memsz for s in loads) + 4096)
        for segment in loads:
            memory[segment.vaddr : segment.vaddr + segment.filesz] = image.read(segment.vaddr, segment.filesz)
    base = 0x7F0000000000
    read = refused = 0
    for _ in range(MEMORY_COUNT):
        content = bytearray(memory)
        for _ in range(rng.choice((1, 2, 5))):
            content[rng.randrange(rng.choice((64, 0x300, len(content))))] = rng.choice((0, 1, 0xFF, rng.randrange(256)))

        def look(address: int, size_bytes: int, content: bytearray = content) -> bytes:
            assert size_bytes <= len(content)
            return bytes(content[address - base : address - base + size_bytes]) if address >= base else b""

        try:
            image = Image("memory", memoryview(read_image(look, base, 0x1000, len(content), "memory")))
            symbols = image.symbols
            symbols.names(symbols.functions.tolist())
            read += 1
        except IcfError as error:
            assert str(error).startswith("memory") and "\n" not in str(error)
            refused += 1
    assert read > MEMORY_COUNT // 4 and refused > MEMORY_COUNT // 20
