"""The comparison of an engine's answers with those of one process finds what differs."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
from linkpass import Options, run_pass  # noqa: E402
from tests.bench import engines  # noqa: E402
from tests.bench.scale import recorded_stacks  # noqa: E402
from tests.support.stack_columns import LINES, SHOP  # noqa: E402
from unwind.arrow.answers import as_plain  # noqa: E402
from unwind.batch.worker import Job  # noqa: E402
from unwind.samples.recording import Losses  # noqa: E402


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Return a job over two files of rows, in `in`; `out` has its answers."""
    monkeypatch.setattr(engines, "FILE_ROWS", 50)
    monkeypatch.setattr(engines, "NEW_SHARE", 0.1)
    shutil.copy(SHOP / "shop.gold", tmp_path / "shop")
    run_pass(str(tmp_path / "shop"), Options())
    (tmp_path / "stacks").write_text("".join(f"{line['stack']}\n" for line in LINES))
    for folder in ("in", "out"):
        (tmp_path / folder).mkdir()
    job = Job(str(tmp_path / "shop"), Losses.NONE, str(tmp_path / "cache"))
    for number in range(2):
        path = tmp_path / "in" / f"{number:05}.parquet"
        engines.write_file(tmp_path / "stacks", path, number)
        with engines.resolver_of(job) as resolver:
            answers = [resolver.resolve(batch) for batch in pq.read_table(path).to_batches()]
        pq.write_table(pa.Table.from_batches(answers), tmp_path / "out" / path.name)
    return job


def test_rows_are_numbered_and_some_stacks_are_new(job: Job, tmp_path: Path) -> None:
    rows = pq.read_table(tmp_path / "in")
    assert sorted(rows.column("weight").to_pylist()) == list(range(100))
    recorded = recorded_stacks(tmp_path / "stacks")
    new = engines.joined([[1, 2, 3, 9], [5, 6, 3, 7]], 30, np.random.default_rng(1))
    assert {tuple(stack) for stack in new} == {(1, 2, 3, 9), (1, 2, 3, 7), (5, 6, 3, 9), (5, 6, 3, 7)}
    assert sum(stack in recorded for stack in rows.column("addresses").to_pylist()) >= 90


@pytest.mark.parametrize("is_plain", [False, True], ids=["Dask", "Spark"])
def test_equal_answers_are_found_equal(job: Job, tmp_path: Path, is_plain: bool) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    stacks, answers = sorted(source.iterdir()), sorted(target.iterdir())
    if is_plain:
        for path in answers:
            plain = [as_plain(batch) for batch in pq.read_table(path).to_batches()]
            pq.write_table(pa.Table.from_batches(plain), path)
    sums = engines.sums_of_answers(answers)
    assert engines.sums_in_one_process(job, stacks) == sums
    assert (sums.rows, sums.weight) == (100, 4950) and sums.verdicts["unique"] > 0
    assert engines.check_exactly(job, source, answers[1]) == 50


def test_one_name_that_differs_is_found(job: Job, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out" / "00000.parquet"
    before = engines.sums_of_answers([target])
    rows = pq.read_table(target).to_pylist()
    rows[7]["frames"][0]["linkage_name"] = "other"
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(target)), target)
    assert engines.sums_of_answers([target]) != before
    with pytest.raises(AssertionError, match=r"00000\.parquet: frames differs"):
        engines.check_exactly(job, source, target)
