"""Spark and Dask, with two worker processes each: the same answers as in one process, and a job that goes on."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from icf.cli import main
from icf.elf.image import Image
from linkpass import Options, run_pass
from tests.support.dying_worker import die_once
from tests.support.paths import ROOT
from tests.support.stack_columns import LINES, SHOP, STACKS
from tests.support.toolchain import find
from unwind.samples.recording import Losses
from unwind.symcache.store.store import open_or_build
from unwind.target.search import SearchPaths

pa = pytest.importorskip("pyarrow")
from unwind.arrow.answers import SCHEMA  # noqa: E402
from unwind.batch.resolver import BatchResolver  # noqa: E402
from unwind.batch.worker import Job, manifest_of  # noqa: E402

GONE = "00" * 20
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a symcache in `symcaches`, its `manifest`, and the build id of the image as its name."""
    folder = tmp_path_factory.mktemp("engines")
    shutil.copy(SHOP / "shop.gold", folder / "shop")
    run_pass(str(folder / "shop"), Options())
    open_or_build(folder / "shop", cache_dir=folder / "own")
    (folder / "symcaches").mkdir()
    return folder


@pytest.fixture(scope="module")
def build_id(published: Path) -> str:
    with Image.open(published / "shop") as image:
        return image.build_id.hex()


@pytest.fixture
def job(published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Job:
    """Return a job whose workers have nothing but the manifest, and a place in the notation of object stores."""
    assert main(["cache", "--cache-dir", str(published / "own"), "push", str(published / "symcaches")]) == 0
    manifest = published / "manifest"
    manifest.write_text(capsys.readouterr().out)
    (published / "shop").rename(published / "moved") if (published / "shop").exists() else None
    place = f"file://{published / 'symcaches'}"
    return Job(
        losses=Losses.NONE, cache_dir=str(tmp_path / "workers"), symcaches=place, manifest=manifest_of(str(manifest))
    )


def columns(build_id: str) -> Any:
    """Return six hundred stacks of two modules, of which one is not to be had."""
    stacks = [stack[at % 2 :] for at in range(200) for stack in STACKS]
    modules = [GONE if at % 50 == 7 else build_id for at in range(len(stacks))]
    weights = pa.array(range(len(stacks)), pa.int64())
    return pa.table({"addresses": pa.array(stacks, pa.list_(pa.int64())), "weight": weights, "module": modules})


def in_one_process(stacks: Any, published: Path) -> Rows:
    search = SearchPaths(cache_dir=str(published / "own"))
    with BatchResolver(losses=Losses.NONE, search=search) as resolver:
        rows: Rows = resolver.resolve(stacks.combine_chunks().to_batches()[0]).to_pylist()
    return rows


def check(found: Rows, stacks: Any, published: Path) -> None:
    """Compare with one process; the rows of the module that is missing must say so."""
    found = sorted(found, key=lambda row: int(row["weight"]))
    assert found == in_one_process(stacks, published)
    assert [frame["linkage_name"] for frame in found[0]["frames"]] == LINES[0]["truth"]
    assert [row["problem"] for row in found if row["weight"] % 50 == 7] == [f"not found: {GONE}"] * 12
    assert {row["problem"] for row in found if row["weight"] % 50 != 7} == {None}


@pytest.mark.slow
def test_spark(job: Job, published: Path, build_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyspark.sql")
    if find("java") is None:
        pytest.skip("no Java")
    from unwind.batch.spark import resolve_stacks

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    # most of the time is the start of the Java machine, which is faster when it optimizes little
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = sql.SparkSession.builder.master("local[2,3]")  # two workers, three tries for each task
    for key, value in {"ui.enabled": "false", "driver.memory": "512m", "local.dir": str(tmp_path)}.items():
        builder = builder.config(f"spark.{key}", value)
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        stacks = columns(build_id)
        frame = spark.createDataFrame(stacks)
        marker = tmp_path / "died"
        answered = resolve_stacks(frame.mapInArrow(partial(die_once, str(marker)), frame.schema), job)
        found = answered.toArrow().to_pylist()
    finally:
        spark.stop()
    assert marker.exists()
    check(found, stacks, published)


@pytest.mark.slow
def test_dask(job: Job, published: Path, build_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    from unwind.batch.dask import resolve_stacks

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stacks = columns(build_id)
    parts = frames.from_pandas(stacks.to_pandas(types_mapper=pandas.ArrowDtype), npartitions=4)
    found = resolve_stacks(parts, job).compute(scheduler="processes", num_workers=2)
    assert found.index.tolist() == list(range(stacks.num_rows))
    answers = pa.Table.from_pandas(found, preserve_index=False)
    assert answers.schema.types == SCHEMA.types
    check(answers.to_pylist(), stacks, published)


def test_a_partition_has_one_dictionary_for_all_its_batches(
    job: Job, build_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else pyarrow writes the texts of each row."""
    pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("unwind.batch.dask")
    monkeypatch.setattr("unwind.batch.worker._TOGETHER", 1)
    stacks = columns(build_id).slice(0, 3).to_pandas(types_mapper=pandas.ArrowDtype)
    answers = pa.Table.from_pandas(dask._resolve(stacks, job), preserve_index=False)
    chunks = [chunk.values.field("name").dictionary.to_pylist() for chunk in answers.column("frames").chunks]
    assert len(chunks) == 3
    assert chunks[0] == chunks[1] == chunks[2] and len(chunks[0]) > 1


def test_a_symcache_that_is_not_what_the_manifest_has_is_not_used(
    job: Job, published: Path, build_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from unwind.batch.worker import resolve_batches

    wrong = job._replace(manifest=tuple((name, "0" * 64) for name, _ in job.manifest))
    (batch,) = resolve_batches(wrong, columns(build_id).slice(0, 1).to_batches())
    assert batch.to_pylist()[0]["problem"] == f"not found: {build_id}"
    assert "the manifest has 0000" in capsys.readouterr().err
