"""Damaged evidence of a link through the command: objects, archives, link maps, reports, .dwp packages, AArch64 images.

`icf pass` and what reads its output end with 0, or with 1 and one line; nothing is written then, nothing hangs.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from icf import cli
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support.archives import header
from tests.support.mutations import LONGEST_S, mutations
from tests.support.paths import ROOT
from tests.support.toolchain import compile_object, run, tool

CORRUPT = ROOT / "testdata/corrupt"
MUTATION_COUNT = many(25)  # of each input
MEMORY_LIMIT_BYTES = 64 << 20
MAP = """\
             VMA              LMA     Size Align Out     In      Symbol
          2001c8           2001c8       18     4 .text
          2001c8           2001c8       10     4         tiny.o:(.text.pears)
          2001d8           2001d8        8     1         lib.a(tiny.o):(.text._start)
"""
REPORT = """\
selected section tiny.o:(.text.pears)
  removing identical section tiny.o:(.text.apples)
"""
SOURCE = """
#define N __attribute__((noinline))
int total;
extern "C" N void apples(int n) { total += n; }
extern "C" N void pears(int n) { total += n; }
void (*chosen)(int) = apples;
struct Base { virtual void open(int n); virtual void close(int n); };
void Base::open(int n) { total += n; }
void Base::close(int n) { total += n; }
Base base, *any = &base;
extern "C" void _start() { apples(1); pears(2); chosen(3); any->open(4); any->close(5); total *= 3; }
"""


def changes(content: bytes, count: int, rng: random.Random) -> Iterator[bytes]:
    """Copies with a few bytes changed, doubled or gone."""
    for index in range(count):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(changed))
            match rng.randrange(5):
                case 0:
                    del changed[at : at + rng.randrange(1, 9)]
                case 1:
                    changed[at:at] = changed[at : at + rng.randrange(1, 80)] * rng.choice((1, 3))
                case _:
                    changed[at] = rng.choice((0, 9, 10, 32, 40, 41, 47, 58, 127, 255, rng.randrange(256)))
        yield bytes(changed[: rng.randrange(len(changed))] if index % 20 == 0 else changed)


def ask(commands: Sequence[Sequence[str | Path]], out: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Run commands, each after the last has succeeded; the status of the last."""
    status = 0
    for command in commands:
        soon(LONGEST_S)
        status = cli.main([str(word) for word in command])
        soon(0)
        errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("icf: error: ")]
        assert len(errors) <= 1 and (status, len(errors)) in ((0, 0), (1, 1), (1, 0))
        if command[0] == "pass" and status:
            assert errors and not out.exists()
            break
    return status


def archive(content: bytes) -> bytes:
    return b"!<arch>\n" + header("tiny.o/", len(content)) + content + b"\n" * (len(content) % 2)


EVIDENCE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "object": ("tiny.o", lambda: (CORRUPT / "tiny.o").read_bytes(), "--objects"),
    "archive": ("lib.a", lambda: archive((CORRUPT / "tiny.o").read_bytes()), "--objects"),
    "map": ("link.map", MAP.encode, "--link-map"),
    "report": ("icf.report", REPORT.encode, "--icf-report"),
}


@pytest.mark.parametrize("kind", EVIDENCE)
def test_damaged_evidence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, content, option = EVIDENCE[kind]
    for file in ("tiny", "tiny.o"):
        shutil.copy(CORRUPT / file, tmp_path)
    (tmp_path / "lib.a").write_bytes(archive((CORRUPT / "tiny.o").read_bytes()))
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    command = ("pass", "-q", "tiny", "-o", out, option, name)
    Path(name).write_bytes(content())
    outcomes = [ask([command], out, capsys)]
    assert outcomes == [0]
    start_bytes = reset_peak_memory()
    with alarms():
        for mutation in changes(content(), MUTATION_COUNT, random.Random(kind)):
            out.unlink(missing_ok=True)
            Path(name).write_bytes(mutation)
            outcomes.append(ask([command, ("verify", out)], out, capsys))
    assert set(outcomes) <= {0, 1} and 0 in outcomes
    assert peak_memory() - start_bytes < MEMORY_LIMIT_BYTES


def test_damaged_aarch64_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("-O1", "-g", "-ffunction-sections", "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables")
    obj = compile_object(SOURCE, "--target=aarch64-linux-gnu", *flags)
    seed = tmp_path / "seed"
    run(tool("ld.lld"), "--icf=all", "--emit-relocs", "-o", seed, obj)
    path, out, stacks = tmp_path / "in", tmp_path / "out", tmp_path / "stacks"
    stacks.write_text("0x210200 0x210220 0x210240\n")
    commands = [
        ("pass", "-q", path, "-o", out),
        ("verify", out),
        ("dump", "--json", out),
        ("resolve", "-e", out, stacks),
        ("disasm", "-e", out, "_start"),
    ]
    path.write_bytes(seed.read_bytes())
    outcomes = [ask(commands, out, capsys)]
    assert outcomes == [0]
    start_bytes = reset_peak_memory()
    with alarms():
        for mutation in mutations(seed, MUTATION_COUNT, random.Random(8)):
            out.unlink(missing_ok=True)
            path.write_bytes(mutation)
            outcomes.append(ask(commands, out, capsys))
    assert 0 in outcomes and 1 in outcomes
    assert peak_memory() - start_bytes < MEMORY_LIMIT_BYTES


def test_damaged_packages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiler, linker, packer = (
        tool("clang++"),
        tool("ld.lld"),
        tool("llvm-dwp"),
    )
    (tmp_path / "a.cpp").write_text(SOURCE)
    obj, dwo, path = tmp_path / "a.o", tmp_path / "a.dwo", tmp_path / "program"
    run(compiler, "-O1", "-g", "-gsplit-dwarf", "-fno-rtti", "-ffunction-sections", "-c", tmp_path / "a.cpp", "-o", obj)
    run(linker, "--icf=all", "-o", path, obj)
    package = tmp_path / "program.dwp"
    run(packer, dwo, "-o", package)
    seed, out = Path(shutil.copy(package, tmp_path / "seed.dwp")), tmp_path / "out"
    os.unlink(dwo)
    commands = [("pass", "-q", path, "-o", out), ("verify", out), ("symbolize", "-e", path, "apples", "0x201200")]
    outcomes = [ask(commands, out, capsys)]
    assert outcomes == [0]
    with alarms():
        for mutation in changes(seed.read_bytes(), MUTATION_COUNT, random.Random(4)):
            out.unlink(missing_ok=True)
            package.write_bytes(mutation)
            outcomes.append(ask(commands, out, capsys))
    assert 0 in outcomes
