"""Mutated programs through the commands that read them: an answer or one line of refusal, never more, never a hang.

`test_pass` does the same to `icf pass`. The inputs have tables: those of the pass, and those of a compiler of old.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from icf.cli import main
from icf.tables.callunit import Dialect
from linkpass.pipeline import Options, run_pass
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support.call_tables import compiler_table, install
from tests.support.mutations import LONGEST_S, SHOP, mutations

MUTATION_COUNT = many(120)  # of each input
STACKS = {
    "shop.gold": "0x9f8 0x88e 0x8f5 0x90f 0x74a ? ? 0x781\n0x870 0x88e\n0x8f0 0x88f 0x1000 0xffffffffffffffff 0x0\n",
    "shop.lld": "0x1a60 0x1a45 0x19fc 0x19ce 0x199f ? ?\n0x1a20 0x19fc\n0x1a21 0x19fd 0x1000 0xffffffffffffffff 0x0\n",
}


def our_tables(image: Path) -> None:
    run_pass(str(image), Options())


def foreign_table(image: Path) -> None:
    install(image, compiler_table(image, Dialect.GCC), image)


@pytest.mark.parametrize("name", ["shop.gold", "shop.lld"])
@pytest.mark.parametrize("add_tables", [our_tables, foreign_table])
def test_mutated_programs_are_read_or_refused(
    name: str, add_tables: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed, path, stacks = Path(shutil.copy(SHOP / name, tmp_path / "seed")), tmp_path / "in", tmp_path / "stacks"
    add_tables(seed)
    stacks.write_text(STACKS[name])
    verify = ["verify", str(path)]
    by_turns = (
        (verify, ["dump", str(path)], ["resolve", "-e", str(path), "--out", "json", str(stacks)]),
        (verify, ["dump", "--json", str(path)], ["resolve", "-e", str(path), str(stacks)]),
    )
    second_readers = (
        ["resolve", "-e", str(path), "--second-reader", str(stacks)],
        ["verify", "--second-reader", str(path)],
    )
    outcomes: dict[str, list[int]] = {"verify": [0, 0], "dump": [0, 0], "resolve": [0, 0]}
    start_bytes = 0

    with alarms():
        for index, mutation in enumerate(mutations(seed, MUTATION_COUNT, random.Random(name))):
            if index == 20:  # everything lazy is imported
                start_bytes = reset_peak_memory()
            path.write_bytes(mutation)
            for command in (*by_turns[index % 2], *(second_readers if index % 8 == 0 else ())):
                soon(LONGEST_S)
                status = main(command)
                soon(0)
                said = capsys.readouterr()
                errors = [line for line in said.err.splitlines() if line.startswith("icf: error: ")]
                is_said = command[0] == "verify" or "icf: every frame of every stack is unknown\n" in said.err
                assert (status, len(errors)) in ((0, 0), (1, 1)) or (status == 1 and is_said)
                assert not errors or errors[0].startswith(f"icf: error: {path}: ")
                outcomes[command[0]][status] += 1
    assert all(min(counts) > 0 for counts in outcomes.values()), outcomes
    assert peak_memory() - start_bytes < 64 << 20
