"""Does an engine's memory stay flat, and has it the answers of one process: rows through Dask or Spark, two workers.

python -m tests.bench.engines IMAGE STACKS FOLDER [--rows 100_000_000] [--engine dask]

IMAGE and STACKS are those of `tests.bench.scale`. FOLDER gets the rows as Parquet files (`in`, 17 MB a million), which
are kept for the next run, and the answers (`out`, 90 MB a million). Most rows are recorded stacks, few of which are
frequent and many rare. A few rows are new stacks, each made of two recorded ones that have a call in common.

Printed are the memory of each worker over time, and the comparison with one process: sums over all rows, and every
value of the rows of some files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.bench.scale import recorded_stacks
from unwind.arrow.sink import OPTIONS
from unwind.batch.resolver import BatchResolver
from unwind.batch.worker import Job
from unwind.samples.recording import Losses
from unwind.symcache.store.store import open_or_build
from unwind.target.search import SearchPaths

FILE_ROWS = 1 << 18
NEW_SHARE = 0.01  # of rows whose stack was not recorded
WORKERS = 2
EXACT_EVERY = 100  # files, of which one is compared value by value
SUMMED = ("verdict", "linkage_name", "line")


class Sums(NamedTuple):
    """What all rows of some files have together."""

    rows: int = 0
    weight: int = 0
    lines: int = 0
    verdicts: Counter[str | None] = Counter()  # of frames
    names: Counter[str | None] = Counter()

    def __add__(self, other: Sums) -> Sums:  # type: ignore[override]
        return Sums(
            self.rows + other.rows, self.weight + other.weight, self.lines + other.lines,
            self.verdicts + other.verdicts, self.names + other.names,
        )  # fmt: skip


# The rows


def write_stacks(stacks: Path, folder: Path, row_count: int) -> None:
    """Write the files that are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {folder / f"{number:05}.parquet": number for number in range(-(-row_count // FILE_ROWS))}
    for path in set(folder.glob("*.parquet")) - set(wanted):
        path.unlink()
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        missing = [(path, number) for path, number in wanted.items() if not path.exists()]
        list(pool.map(partial(write_file, stacks), *zip(*missing, strict=True), chunksize=8) if missing else ())


def write_file(stacks: Path, path: Path, number: int) -> None:
    """Write the rows of a file, which follow from its number."""
    chance, recorded = np.random.default_rng(number), recorded_stacks(stacks)
    ranks = np.random.default_rng(1).permutation(len(recorded)) + 1
    new = joined(recorded, round(FILE_ROWS * NEW_SHARE), chance)
    drawn = chance.choice(len(recorded), FILE_ROWS - len(new), p=(1 / ranks) / (1 / ranks).sum())
    order = np.concatenate([drawn, np.arange(len(recorded), len(recorded) + len(new))])
    chance.shuffle(order)
    kind = pa.list_(pa.int64())  # Spark reads uint64 as decimals
    rows = pa.table({"addresses": pa.array([*recorded, *new], kind).take(pa.array(order))})
    first = number * FILE_ROWS  # a weight says which row it is
    rows = rows.append_column("weight", pa.array(np.arange(first, first + FILE_ROWS)))
    partial_path = path.with_suffix(".partial")
    pq.write_table(rows, partial_path, compression="zstd", row_group_size=1 << 16)
    partial_path.rename(path)


def joined(recorded: Sequence[list[int | None]], count: int, chance: np.random.Generator) -> list[list[int | None]]:
    """Return stacks that begin as one that was recorded, and after a call that both have go on as another."""
    found: list[list[int | None]] = []
    for first, second in chance.integers(0, len(recorded), (10 * count, 2)).tolist():
        if len(found) == count:
            break
        inner, outer = recorded[first], recorded[second]
        places = [at for at, address in enumerate(inner[1:], 1) if address is not None and address in outer[1:]]
        if places:
            at = places[int(chance.integers(len(places)))]
            found.append(inner[:at] + outer[outer.index(inner[at], 1) :])
    return found


# The engines


def run_dask(source: Path, target: Path, job: Job) -> None:
    import dask.dataframe

    from unwind.batch.dask import resolve_stacks

    stacks = dask.dataframe.read_parquet(source, dtype_backend="pyarrow")
    written = resolve_stacks(stacks, job).to_parquet(target, write_index=False, compute=False, **OPTIONS)
    # not optimized, each partition would go from worker to worker between reading, resolving and writing
    written.optimize().compute(scheduler="processes", num_workers=WORKERS, chunksize=1)


def run_spark(source: Path, target: Path, job: Job) -> None:
    from pyspark.sql import SparkSession

    from unwind.batch.spark import resolve_stacks

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(f"local[{WORKERS}]")
    settings = {
        "driver.memory": "2g",
        "ui.enabled": "false",
        "local.dir": str(target.parent),
        "sql.files.maxPartitionBytes": "8m",
        "sql.parquet.compression.codec": "zstd",
    }
    for key, value in settings.items():
        builder = builder.config(f"spark.{key}", value)
    spark = builder.getOrCreate()
    try:
        resolve_stacks(spark.read.parquet(str(source)), job).write.parquet(str(target))
    finally:
        spark.stop()


ENGINES: dict[str, Callable[[Path, Path, Job], None]] = {"dask": run_dask, "spark": run_spark}


# Memory


class Memory:
    """Resident MB of each process below this one that has run for long, sampled once a second."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, dict[str, int]]] = []
        self._end, self._start = Event(), time.monotonic()
        self._thread = Thread(target=self._sample)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def table(self, line_count: int = 12) -> Iterator[str]:
        """Yield lines: the time, and of each process the most that it had since the line before."""
        often = Counter(name for _, sample in self.samples for name in sample)
        names = [name for name, count in often.items() if count > len(self.samples) / 2]
        yield "| seconds | " + " | ".join(f"{name}, MB at most" for name in names) + " |"
        yield "|---" * (len(names) + 1) + "|"
        step = max(-(-len(self.samples) // line_count), 1)
        for at in range(0, len(self.samples), step):
            part = self.samples[at : at + step]
            most = [max(sample.get(name, 0) for _, sample in part) for name in names]
            yield f"| {part[-1][0]:.0f} | " + " | ".join(map(str, most)) + " |"

    def _sample(self) -> None:
        while not self._end.wait(1):
            found = {f"{name} {pid}": size for pid, name, size in below(os.getpid())}
            self.samples.append((time.monotonic() - self._start, found))


def below(pid: int) -> Iterator[tuple[int, str, int]]:
    """Yield the processes that descend from one: number, name, resident MB."""
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = [each for task in tasks for each in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return
    for child in map(int, children):
        try:
            name = Path(f"/proc/{child}/comm").read_text().strip()
            pages = int(Path(f"/proc/{child}/statm").read_text().split()[1])
        except OSError:
            continue
        yield child, name, pages * os.sysconf("SC_PAGE_SIZE") >> 20
        yield from below(child)


# The comparison


def sums_of_answers(paths: Sequence[Path]) -> Sums:
    """Return what the answers in some files have together."""
    columns = ["weight", *(f"frames.list.element.{name}" for name in SUMMED)]
    batches = (batch for path in paths for batch in pq.ParquetFile(path).iter_batches(1 << 16, columns=columns))
    return sum(map(sums_of, batches), Sums())


def sums_in_one_process(job: Job, paths: Sequence[Path]) -> Sums:
    """Return what the answers for the stacks in some files have together, resolved here."""
    with resolver_of(job) as resolver:
        batches = (batch for path in paths for batch in pq.ParquetFile(path).iter_batches(1 << 16))
        return sum((sums_of(resolver.resolve(batch)) for batch in batches), Sums())


def sums_of(answers: Any) -> Sums:
    frames = answers.column("frames").flatten()
    verdicts, names, lines = (frames.field(frames.type.get_field_index(name)) for name in SUMMED)
    weight = int(answers.column("weight").to_numpy().sum())
    return Sums(answers.num_rows, weight, pc.sum(lines).as_py() or 0, counted(verdicts), counted(names))


def counted(column: Any) -> Counter[str | None]:
    return Counter({each["values"]: each["counts"] for each in column.value_counts().to_pylist()})


def check_exactly(job: Job, source: Path, answers: Path) -> int:
    """Compare every value in a file of answers, and return how many rows it has; AssertionError where one differs."""
    found = pq.read_table(answers)
    rows = found.column("weight").to_numpy()
    numbers = np.unique(rows // FILE_ROWS)
    stacks = pa.concat_tables([pq.read_table(source / f"{number:05}.parquet") for number in numbers.tolist()])
    stacks = stacks.take(pa.array(np.searchsorted(numbers, rows // FILE_ROWS) * FILE_ROWS + rows % FILE_ROWS))
    with resolver_of(job) as resolver:
        expected = pa.Table.from_batches([resolver.resolve(batch) for batch in stacks.to_batches(1 << 16)])
    for name in expected.column_names:
        own, its = (list(plain(table.column(name).combine_chunks())) for table in (expected, found))
        assert own == its, f"{answers}: {name} differs"
    return len(rows)


def plain(column: Any) -> Iterator[Any]:
    """Yield the columns in a column, without lists, structs and dictionaries."""
    kind = column.type
    if pa.types.is_list(kind):
        yield pc.list_value_length(column)
        yield from plain(column.flatten())
    elif pa.types.is_struct(kind):
        for idx in range(kind.num_fields):
            yield from plain(column.field(idx))
    elif pa.types.is_uint64(kind):
        yield column.view(pa.int64())
    else:
        yield column.dictionary_decode() if pa.types.is_dictionary(kind) else column


def resolver_of(job: Job) -> BatchResolver:
    return BatchResolver(job.image, losses=job.losses, search=SearchPaths(cache_dir=job.cache_dir))


def compare(job: Job, source: Path, target: Path) -> str:
    """Compare the answers of an engine with those of one process, and say how much that was."""
    stacks, answers = sorted(source.glob("*.parquet")), sorted(target.glob("*.parquet"))
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        own, its = pool.submit(sums_in_one_process, job, stacks), pool.submit(sums_of_answers, answers)
        assert own.result() == its.result(), f"{target}: the sums over all rows differ"
    exact = sum(check_exactly(job, source, path) for path in answers[::EXACT_EVERY])
    return f"as in one process: sums over {own.result().rows:,} rows, each value of {exact:,} rows"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="tests.bench.engines", description=__doc__)
    parser.add_argument("image", metavar="IMAGE", type=Path)
    parser.add_argument("stacks", metavar="STACKS", type=Path)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--engine", choices=ENGINES, default="dask")
    args = parser.parse_args(arguments)
    os.environ["PYTHONPATH"] = os.getcwd()
    source, target, cache_dir = (args.folder / name for name in ("in", "out", "cache"))
    write_stacks(args.stacks, source, args.rows)
    shutil.rmtree(target, ignore_errors=True)
    open_or_build(args.image, cache_dir=cache_dir)
    job = Job(str(args.image.resolve()), Losses.NONE, str(cache_dir.resolve()))
    row_count, start, before = len(list(source.iterdir())) * FILE_ROWS, time.monotonic(), os.times()
    with Memory() as memory:
        ENGINES[args.engine](source, target, job)
    took_s, after = time.monotonic() - start, os.times()
    spent_s = sum(after[:4]) - sum(before[:4])  # its own, and that of the workers, which have ended
    print("\n".join(memory.table()))
    sizes = [sum(path.stat().st_size for path in folder.glob("*.parquet")) for folder in (source, target)]
    print(f"{args.engine}: {row_count:,} rows in {took_s:.0f} s with two workers: {row_count / took_s:,.0f} a second,")
    print(f"{spent_s / row_count * 1e6:.1f} s of processor time a million")
    print(f"{sizes[0] / row_count:.1f} bytes a row read, {sizes[1] / row_count:.1f} written", flush=True)
    print(compare(job, source, target))


if __name__ == "__main__":
    main()
