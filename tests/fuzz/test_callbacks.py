"""Mutated programs that call `qsort`: what its calls are given is found or not, soon, and nothing else happens."""

from __future__ import annotations

import random
import time
import tracemalloc
from pathlib import Path

import numpy as np

from icf.code.callbacks import find_given, is_passed
from icf.elf.image import Image
from icf.errors import IcfError
from tests.fuzz.limits import many
from tests.support.toolchain import run, tool

MUTATION_COUNT = many(3_000)
SOURCE = """
    #include <stdlib.h>
    static int by_age(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
    volatile int total;
    void ages(int *p, int n) { if (n) total = 2; qsort(p, 2, 4, by_age); total = 1; }
    int main(int argc, char **argv) { int p[9]; ages(p, argc); qsort(p, 9, 4, by_age); return total; }
"""
EDGES = (0, 1, 0x1000, 2**31, 2**32, 2**47, 2**62, 2**63, 2**64 - 0x100, 2**64 - 1)


def mutated(rng: random.Random, data: bytes, code: range) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        where = rng.random()
        if where < 0.2:  # a field of a program header, or of the table of sections
            at = 64 + 8 * rng.randrange(56) if rng.random() < 0.5 else len(out) - 8 * rng.randrange(1, 200)
            out[at : at + 8] = rng.choice(EDGES).to_bytes(8, "little")
        elif where < 0.8:
            out[rng.choice(code)] = rng.choice((0xE8, 0xE9, 0xEB, 0x48, 0x8D, 0xFF, 0x74, rng.randrange(256)))
        else:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def test_mutations(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(SOURCE)
    originals = []
    for compiler, *flags in (("gcc", "-O2"), ("gcc", "-O1", "-fno-plt"), ("aarch64-linux-gnu-gcc", "-O2")):
        run(tool(compiler), *flags, "-s", "a.c", "-o", "a", folder=tmp_path)
        data = (tmp_path / "a").read_bytes()
        with Image.open(str(tmp_path / "a")) as image:
            (text,) = (section for section in image.sections if section.name == ".text")
            originals.append((data, range(text.offset, text.offset + text.size_bytes), text.vaddr))
    rng = random.Random(7)
    read = refused = found = 0
    worst_s = 0.0
    for number in range(MUTATION_COUNT):
        data, code, vaddr = originals[number % len(originals)]
        watched = number % 100 == 0
        if watched:
            tracemalloc.start()
        start_s = time.thread_time()
        try:
            image = Image("fuzz", memoryview(mutated(rng, data, code) if number >= len(originals) else data))
            bounds = sorted({vaddr, *(rng.randrange(vaddr, vaddr + len(code)) for _ in range(rng.randrange(3)))})
            ends = [*bounds[1:], rng.choice((vaddr + len(code), 2**64 - 1))]
            given = find_given(image, np.array(bounds, np.uint64), np.array(ends, np.uint64))
            assert all(vaddr < each.formed <= each.call_end <= vaddr + len(code) for each in given)
            for each in given:
                assert is_passed(image, each.call_end, each.target)
            for at in EDGES:
                is_passed(image, at, vaddr)
            found += len(given)
            read += 1
        except IcfError:
            refused += 1
        worst_s = max(worst_s, time.thread_time() - start_s)
        if watched:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 2**30
    assert worst_s < 2.0
    assert min(read, found) > MUTATION_COUNT // 10 and refused
