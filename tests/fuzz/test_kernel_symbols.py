"""Mutations of vmlinux, of a kernel module and of kallsyms: each has names, or is not taken."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.fuzz.limits import alarms, many, soon
from tests.support.toolchain import run, tool
from unwind.readers.perf_data.kallsyms import read_kallsyms
from unwind.readers.perf_data.kernel_images import find_module, find_vmlinux

MUTATION_COUNT, LONGEST_S = many(5_000), 5
START = 0xFFFFFFFFC0A01000
ADDRESSES = (0, START, START + 1, START + 0x10, 1 << 63, (1 << 64) - 1)
CODE = "int sink; void first(void) { sink++; } void second(void) { first(); }"
LINES = b"ffffffffc0a01000 T _text\nffffffffc0a01010 t do_one\nffffffffc0a01010 T __do_one\t[k]\n"


def mutated(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.choice((rng.randrange(64), rng.randrange(len(changed))))
        changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vmlinux", "k.ko"])
def test_files_of_the_kernel(name: str, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(CODE)
    run(tool("gcc"), "-c", "-O1", "-mcmodel=kernel", "-fno-pie", tmp_path / "k.c", "-o", tmp_path / "k.o")
    how = ("-r",) if name == "k.ko" else (f"-Ttext={START:#x}", "-e", "first")
    run(tool("ld"), "--build-id", *how, tmp_path / "k.o", "-o", tmp_path / name)
    content, path = (tmp_path / name).read_bytes(), tmp_path / "root" / name
    with Image.open(tmp_path / name, allow_rel=True) as image:
        build_id = image.build_id
    path.parent.mkdir()
    rng, outcomes = random.Random(5), [0, 0]
    with alarms():
        for _ in range(MUTATION_COUNT):
            soon(LONGEST_S)
            path.write_bytes(mutated(rng, content))
            root = [str(path.parent)]
            found = (
                find_module(f"/lib/{name}", build_id, START, root)
                if name == "k.ko"
                else find_vmlinux(build_id, "", root)
            )
            outcomes[found is not None] += 1
            if found is not None:
                found.address_of("first")
                assert all(isinstance(found.name(address), str) for address in ADDRESSES)
    assert min(outcomes) > MUTATION_COUNT // 50


@pytest.mark.slow
def test_kallsyms(tmp_path: Path) -> None:
    rng, path = random.Random(6), tmp_path / "kallsyms"
    with alarms():
        for _ in range(MUTATION_COUNT):
            soon(LONGEST_S)
            path.write_bytes(mutated(rng, LINES))
            for symbols in read_kallsyms(str(path)).values():
                symbols.address_of("_text")
                assert all(isinstance(symbols.name(address), str) for address in ADDRESSES)
