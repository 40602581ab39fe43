"""10,000 mutations of images with code: branches, calls and jumps are found or not, and nothing else happens."""

from __future__ import annotations

import random
import time
import tracemalloc

import numpy as np

from icf.code.branches import find_branches
from icf.code.calls import call_ending_at
from icf.code.jumps import jump_at
from icf.elf.image import Image
from icf.elf.types import PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS, Machine
from icf.errors import IcfError
from tests.fuzz.limits import many
from tests.support.elf import Elf, Part, Sym, symbol_parts

MUTATION_COUNT = many(10_000)
EDGES = (0, 1, 0x1000, 2**31, 2**32, 2**47, 2**63, 2**64 - 0x100, 2**64 - 1)


def image(machine: int) -> bytes:
    rng = random.Random(machine)
    flags = SHF_ALLOC | SHF_EXECINSTR
    pieces = (b"\xe8\x10\0\0\0", b"\xe9\xf0\xff\xff\xff", b"\x0f\x84\0\0\0\0", b"\xff\xd0", b"\xff\x15\0\1\0\0",
              b"\x89\xe8", b"\x04\0\0\x94", b"\xff\xff\xff\x17", b"\x41\0\0\x54", b"\0\1\x3f\xd6")  # fmt: skip
    text = b"".join(rng.choice(pieces) for _ in range(120))
    parts = [
        Part(".init", SHT_PROGBITS, flags, b"\xe8\0\0\0\0", 0x1000),
        Part(".text", SHT_PROGBITS, flags, text, 0x2000),
    ]
    symbols = symbol_parts([Sym(f"f{at}", 2, 1, 2, 0x2000 + at, 4) for at in range(0, 200, 5)], 3)
    return Elf([*parts, *symbols], [(PT_LOAD, 5, ".init"), (PT_LOAD, 5, ".text")], machine=machine).build()


def mutated(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(out))
        if rng.random() < 0.3:  # a field of a section or program header
            at = rng.choice((64, len(out) - 64 * 6)) + 8 * rng.randrange(14)
            out[at : at + 8] = rng.choice(EDGES).to_bytes(8, "little")
        elif rng.random() < 0.5:
            out[at] = rng.choice((0xE8, 0xE9, 0x0F, 0xFF, 0x15, 0xD0, 0x94, rng.randrange(256)))
        else:
            out[at] ^= 1 << rng.randrange(8)
    return bytes(out)


def test_mutations() -> None:
    originals = [image(Machine.X86_64), image(Machine.AARCH64)]
    rng = random.Random(3)
    read = refused = found = 0
    worst_s = 0.0
    for number in range(MUTATION_COUNT):
        watched = number % 100 == 0
        if watched:
            tracemalloc.start()
        start_s = time.thread_time()
        try:
            picture = Image("fuzz", memoryview(mutated(rng, originals[number % 2])))
            targets = np.array([*EDGES, *(0x2000 + rng.randrange(500) for _ in range(30))], np.uint64)
            branches = find_branches(picture, targets[::2], targets)
            assert np.isin(branches.target, targets).all()
            found += len(branches.end)
            for at in (*EDGES, *(0x2000 + rng.randrange(600) for _ in range(8))):
                call_ending_at(picture, at)
                jump_at(picture, at)
            read += 1
        except IcfError:
            refused += 1
        worst_s = max(worst_s, time.thread_time() - start_s)
        if watched:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 2**30 + 2**22  # two bitmaps of all that is in reach, at most: mostly pages never touched
    assert worst_s < 1.0
    assert min(read, refused) > MUTATION_COUNT // 20 and found > MUTATION_COUNT // 2
