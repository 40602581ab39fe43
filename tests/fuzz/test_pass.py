"""2,000 mutated programs through the whole pass: tables or one line of refusal, never more, never a hang.

A byte is changed anywhere: every section is hit about as often as any other, headers and small ones more often
for their size than large ones. One input has its tables already: there `icf verify` has them to read.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.errors import IcfError
from linkpass.pipeline import Options, run_pass
from linkpass.tables.verify import verify_image
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory, soon
from tests.support.mutations import LONGEST_S, SHOP, mutations

MUTATION_COUNT = many(500)  # of each input


@pytest.mark.parametrize("name", ["shop.gold", "shop.lld"])
@pytest.mark.parametrize("done", [False, True], ids=["fresh", "with-tables"])
def test_mutated_programs_are_passed_or_refused(name: str, done: bool, tmp_path: Path) -> None:
    seed = Path(shutil.copy(SHOP / name, tmp_path / "seed"))
    if done:
        run_pass(str(seed), Options())
    folder = tmp_path / "work"
    folder.mkdir()
    path, out = folder / "in", folder / "out"
    refusals: set[str] = set()
    passed = 0
    start_bytes = 0

    with alarms():
        for index, mutation in enumerate(mutations(seed, MUTATION_COUNT, random.Random(name))):
            if index == 50:  # everything lazy is imported
                start_bytes = reset_peak_memory()
            path.write_bytes(mutation)
            out.unlink(missing_ok=True)
            soon(LONGEST_S)
            try:
                run_pass(str(path), Options(out=str(out), threads=1))
                with Image.open(out) as image:
                    assert not verify_image(image)
                passed += 1
            except IcfError as error:
                refusals.add(str(error))
                assert not out.exists() and "\n" not in str(error) and str(error).startswith(str(folder))
            soon(0)
            assert path.read_bytes() == mutation
    assert set(os.listdir(folder)) <= {"in", "out"}  # no temporary file is left
    assert passed > MUTATION_COUNT // 4 and len(refusals) > MUTATION_COUNT // 50
    assert peak_memory() - start_bytes < 64 << 20
