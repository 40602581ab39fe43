"""Truncations and ten thousand mutations of perf.data: each is read as far as it goes, or refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from icf.errors import IcfError
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support import perf_data as p
from tests.support.paths import ROOT
from tests.support.perf_data import BRANCH_STACK, CONTEXT_USER, LBR, PLAIN, attr, lbr_sample, mmap2, perf_data
from unwind.readers.formats import reader_of
from unwind.readers.perf_data import kernel
from unwind.readers.source import Source

DATA = ROOT / "testdata" / "perf"
NAMES = ("hot", "hot.z", "hot.pipe", "hot.dwarf", "hot.events")
MUTATION_COUNT = many(4_000)
LONGEST_S, MEMORY_BYTES = 5, 1 << 28
KERNEL = 0xFFFFFFFF81000000
MODULES = p.perf_data(  # of every kind that has a finder of its own
    p.namespaces(7, 123, 5)
    + p.mmap2(0, KERNEL, 0x10000, "[kernel.kallsyms]_text", 0, KERNEL, misc=p.KERNEL, build_id=bytes(20))
    + p.mmap2(0, KERNEL + 0x20000, 0x1000, "/lib/k.ko.xz", 0, misc=p.KERNEL, build_id=bytes(20))
    + p.record(17, p.words(KERNEL + 0x30000) + p.words(1 << 32 | 32) + p.text("bpf_prog_x") + p.end_of(0, 1))
    + p.mmap2(7, 0x5000, 0x1000, "/bin/a", 5)
    + p.mmap2(7, 0x8000, 0x1000, "/tmp/jit-7.dump", 5)
    + p.mmap2(7, 0xA000, 0x1000, "/tmp/jitted-7-1.so", 5)
    + p.mmap2(7, 0x7FFE00000000, 0x2000, "[vdso]", 5, file_id=(0, 0))
    + p.sample(7, 9, p.CONTEXT_KERNEL, KERNEL + 5, KERNEL + 0x20010, KERNEL + 0x30010)
    + p.sample(7, 9, p.CONTEXT_USER, 0x5010, 0xA010, 0x7FFE00000B00, 0x9999)
)
VALUES = (0, 1, 0x7F, 0x80, 0xFF)


@pytest.fixture(autouse=True)
def no_names_of_kernel_functions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # perf keeps copies there
    monkeypatch.setattr(kernel, "running_build_id", lambda *_: b"")


def outcome(content: bytes, path: Path) -> bool:
    """Return whether a file was read; it was refused otherwise."""
    path.write_bytes(content)
    try:
        with Source.open(str(path)) as source:
            for sample in reader_of("perf").read(source):
                assert all(frame.address is None or 0 <= frame.address < 1 << 64 for frame in sample.frames)
                assert all(weight >= 0 for weight in sample.weights)
    except IcfError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
        return False
    return True


def lbr() -> bytes:
    """Return a recording of which the stacks are in branches."""
    calls = [(0x5100, 0x5200), (0x5300, 0x50F0)]
    stacks = (lbr_sample(7, 20 + at, calls, CONTEXT_USER, 0x5210) for at in range(8))
    its_attr = attr(PLAIN | BRANCH_STACK, branches=LBR)
    return perf_data(mmap2(7, 0x5000, 0x1000, "/bin/shop", 10) + b"".join(stacks), its_attr)


def mutations(rng: random.Random, count: int) -> Iterator[bytes]:
    contents = [(DATA / f"{name}.data").read_bytes()[:12000] for name in NAMES] + [lbr()]
    for _ in range(count):
        changed = bytearray(rng.choice(contents))
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(rng.choice((104, 400, len(changed))))
            changed[at] = rng.choice((*VALUES, rng.randrange(256)))
            if rng.random() < 0.1:
                changed[at : at + 8] = b"\xff" * len(changed[at : at + 8])
        yield bytes(changed)


@pytest.mark.parametrize("name", ["hot.z", "hot.pipe"])
def test_truncations(name: str, tmp_path: Path) -> None:
    content = (DATA / f"{name}.data").read_bytes()
    outcomes = [0, 0]
    with alarms():
        for size_bytes in (*range(1000), *range(1000, len(content), 7)):  # of records each part, by turns
            soon(LONGEST_S)
            outcomes[outcome(content[:size_bytes], tmp_path / "p")] += 1
    assert min(outcomes) > 10


@pytest.mark.slow
def test_mutations(tmp_path: Path) -> None:
    outcomes = [0, 0]
    before = reset_peak_memory()
    with alarms():
        for content in mutations(random.Random(12), MUTATION_COUNT):
            soon(LONGEST_S)
            outcomes[outcome(content, tmp_path / "p")] += 1
    assert min(outcomes) > MUTATION_COUNT // 50
    assert peak_memory() - before < MEMORY_BYTES
