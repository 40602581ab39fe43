"""Mutated programs through `icf disasm`: instructions or one line of refusal, never more, never a hang."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from icf.cli import main
from linkpass.pipeline import Options, run_pass
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support.mutations import LONGEST_S, SHOP, mutations
from tests.support.paths import ROOT
from tests.support.toolchain import compile_object, link, tool

MUTATION_COUNT = many(25)  # of each input
WINDOWS = ROOT / "testdata" / "pe"
EVERYTHING = "0..ffffffffffffffff"
AARCH64 = """
    struct Fruit { virtual int price() { return 1; } };
    Fruit fruit; int (*handler)(int);
    extern "C" int choose(int what) {
        switch (what) { case 0: return 7; case 1: return 3; case 2: return 9; case 3: return 4; case 4: handler(3); }
        return fruit.price() + handler(what);
    }
    extern "C" void _start() { choose(3); }
"""


def shop(name: str, folder: Path) -> Path:
    path = Path(shutil.copy(SHOP / name, folder / "seed"))
    run_pass(str(path), Options())
    return path


def aarch64(folder: Path) -> Path:
    tool("aarch64-linux-gnu-g++")
    built = compile_object(AARCH64, "-O2", "-fno-rtti", "-fno-jump-tables", arch="aarch64")
    options = ("-nostdlib", "-Wl,--unresolved-symbols=ignore-all")
    return link(folder / "seed", "lld", built, *options, arch="aarch64")


@pytest.mark.parametrize("name", ["shop.gold", "shop.lld", "aarch64"])
def test_mutated_programs_are_disassembled_or_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed, path = aarch64(tmp_path) if name == "aarch64" else shop(name, tmp_path), tmp_path / "in"
    function = "choose" if name == "aarch64" else "post"
    command = ["disasm", "-e", str(path)]
    commands = (
        [*command, EVERYTHING, "--bytes"],
        [*command, EVERYTHING, "--json"],
        [*command, function, "--no-addresses"],
    )
    outcomes = [0, 0]
    start_bytes = 0

    with alarms():
        for index, mutation in enumerate(mutations(seed, MUTATION_COUNT, random.Random(name))):
            if index == MUTATION_COUNT // 2:  # everything lazy is imported
                start_bytes = reset_peak_memory()
            path.write_bytes(mutation)
            for arguments in (*commands, [*command, function, "-S"]) if index % 5 == 0 else commands:
                soon(LONGEST_S)
                status = main(arguments)
                soon(0)
                said = capsys.readouterr()
                errors = [line for line in said.err.splitlines() if line.startswith("icf: error: ")]
                assert (status, len(errors)) in ((0, 0), (1, 1))
                assert not errors or errors[0].startswith(f"icf: error: {path}: ")
                assert status or said.out
                outcomes[status] += 1
    assert min(outcomes) > 0, outcomes
    assert peak_memory() - start_bytes < 64 << 20


def test_mutated_images_of_windows_are_disassembled_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, outcomes, path = random.Random(7), [0, 0], tmp_path / "shop.exe"
    content = (WINDOWS / "shop.exe").read_bytes()
    shutil.copy(WINDOWS / "shop.pdb", tmp_path)
    used = [at for at in range(len(content)) if content[at]]
    with alarms():
        for _ in range(2 * MUTATION_COUNT):
            changed = bytearray(content)
            for _ in range(rng.choice((1, 1, 4, 8))):
                at = rng.choice(used[:256] if rng.random() < 0.5 else used)
                changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            path.write_bytes(changed)
            soon(LONGEST_S)
            status = main(["disasm", "-e", str(path), "--cache-dir", str(tmp_path / "cache")])
            soon(0)
            errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("icf: error: ")]
            assert (status, len(errors)) in ((0, 0), (1, 1))
            outcomes[status] += 1
    assert min(outcomes) > 0, outcomes
