"""What a billion stacks cost: measured on one core, then a table of cores, memory and cache for fleets.

python -m tests.bench.scale IMAGE STACKS [--rows N]     prints a table in Markdown, and the measured figures above it

STACKS has stacks of IMAGE in the format pcs, as `tests.truth` records them. Rows are drawn from them at random; the
model takes the processor time of resolving batches that a reader has in memory, of reading and writing Parquet, of
making the symcache, and of its first query. What an engine adds (the network, its own columns) is not in it.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tests.truth.tool import default_command
from unwind.batch.resolver import BatchResolver
from unwind.readers.pcs import read_pcs
from unwind.samples.recording import Losses
from unwind.symcache.store.store import open_or_build
from unwind.target.search import SearchPaths

BATCH_ROWS = 1 << 16
DAY_S = 86_400
FLEETS = (  # what, stacks a day, distinct binaries, machines that the work is divided among
    ("1 machine", 1e6, 100, 1),
    ("100 machines", 1e8, 1_000, 1),
    ("a fleet", 1e9, 10_000, 10),
)


class Cost(NamedTuple):
    """What was measured: processor seconds, and bytes."""

    resolve_s: float  # of a million stacks in memory, as columns
    command_s: float  # of a million stacks from Parquet to Parquet, with all its processes
    first_s: float  # of the first batch: opening the symcache, and all stacks that are new
    build_s: float  # of a symcache
    cache_bytes: int
    image_bytes: int
    start_bytes: int  # of memory, before the first batch
    binary_bytes: int  # of memory, for the symcache and all distinct stacks
    batch_bytes: int  # of memory, more than that, for batches of BATCH_ROWS
    depth: float
    merged: float  # share of frames in merged functions


def measure(image: Path, stacks: Path, row_count: int) -> Cost:
    """Return what it costs to resolve so many rows; prints how memory grows."""
    distinct = recorded_stacks(stacks)
    column, chance = pa.array(distinct, pa.list_(pa.uint64())), np.random.default_rng(1)
    with TemporaryDirectory() as folder:
        build_s = spent(lambda: open_or_build(image, cache_dir=folder))
        cache_bytes = sum(each.stat().st_size for each in Path(folder).glob("*.symcache"))
        search, start_bytes = SearchPaths(cache_dir=folder), peak()
        with BatchResolver(str(image), losses=Losses.NONE, search=search) as resolver:
            first_s = spent(lambda: resolver.resolve(pa.RecordBatch.from_arrays([column], names=["addresses"])))
            binary_bytes = peak() - start_bytes
            seconds: list[float] = []
            for number in range(-(-row_count // BATCH_ROWS)):
                batch = rows(column, chance)
                seconds.append(spent(lambda batch=batch: resolver.resolve(batch)))  # type: ignore[misc]
                if number & number + 1 == 0:
                    print(f"after {(number + 1) * BATCH_ROWS:,} rows: {peak() >> 20} MB at most")
            answers = resolver.resolve(rows(column, chance)).column("frames").values
        verdicts = answers.field("verdict").value_counts().to_pylist()
        merged = sum(each["counts"] for each in verdicts if each["values"] not in ("unmerged", "unknown"))
        return Cost(
            float(np.median(seconds)) / BATCH_ROWS * 1e6, command_seconds(image, column, chance, folder), first_s,
            build_s, cache_bytes, image.stat().st_size, start_bytes, binary_bytes, peak() - start_bytes - binary_bytes,
            sum(map(len, distinct)) / len(distinct), merged / len(answers),
        )  # fmt: skip


def recorded_stacks(path: Path) -> list[list[int | None]]:
    """Return the stacks in a file."""
    with path.open("rb") as file:
        return [list(stack.addresses) for stack in read_pcs(file, str(path))]


def rows(column: Any, chance: np.random.Generator) -> Any:
    """Return a batch of stacks, drawn at random."""
    drawn = column.take(pa.array(chance.integers(0, len(column), BATCH_ROWS)))
    return pa.RecordBatch.from_arrays([drawn, pa.array(np.ones(BATCH_ROWS, np.int64))], names=["addresses", "weight"])


def command_seconds(image: Path, column: Any, chance: np.random.Generator, folder: str) -> float:
    """Return the processor time of `icf resolve` for a million stacks, Parquet in and out, less that of one batch."""
    import subprocess

    import pyarrow.parquet as pq

    costs = []
    for count in (1, 16):
        table = pa.Table.from_batches([rows(column, chance) for _ in range(count)])
        path = f"{folder}/{count}.parquet"
        pq.write_table(table, path, compression="zstd")
        command = [*default_command(), "resolve", "-e", str(image), "--cache-dir", folder, "--lossy", "none", path]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "-o", f"{path}.out"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return (costs[1] - costs[0]) / (15 * BATCH_ROWS) * 1e6


def spent(work: Callable[[], object]) -> float:
    """Return the processor time of some work of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def peak() -> int:
    """Return the largest number of resident bytes of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def table(cost: Cost) -> list[str]:
    """Return the model as a table in Markdown.

    Each binary is as large as the one that was measured. Rows are divided among workers by binary: one has it.
    """
    lines = [
        "| | stacks a day | binaries | cores | processor hours a day | memory | cache |",
        "|---|---|---|---|---|---|---|",
    ]
    for what, stacks, binaries, workers in FLEETS:
        spent_s = stacks / 1e6 * cost.command_s + binaries * (cost.first_s + cost.build_s)
        cores = max(spent_s / DAY_S, 0.01)
        memory = workers * (cost.start_bytes + cost.batch_bytes) + binaries * cost.binary_bytes
        cache = binaries * cost.cache_bytes
        lines.append(
            f"| {what} | {stacks:,.0f} | {binaries:,} | {cores:.2f} | {spent_s / 3600:.2f} |"
            f" {memory / 1e9:.1f} GB at most | {cache / 1e9:.1f} GB |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="tests.bench.scale", description=__doc__)
    parser.add_argument("image", metavar="IMAGE", type=Path)
    parser.add_argument("stacks", metavar="STACKS", type=Path)
    parser.add_argument("--rows", type=int, default=1 << 22)
    args = parser.parse_args(arguments)
    cost = measure(args.image, args.stacks, args.rows)
    print(f"{cost.depth:.1f} frames a stack, {cost.merged:.1%} of them in merged functions")
    print(f"a million stacks: {cost.resolve_s:.2f} s in memory, {cost.command_s:.2f} s from Parquet to Parquet")
    print(
        f"a binary of {cost.image_bytes / 1e6:.0f} MB: {cost.build_s:.2f} s and {cost.cache_bytes / 1e6:.1f} MB for its"
        f" symcache, {cost.first_s:.2f} s and {cost.binary_bytes / 1e6:.0f} MB for its stacks"
    )
    print(
        f"a worker: {cost.start_bytes / 1e6:.0f} MB, {cost.batch_bytes / 1e6:.0f} MB for batches of {BATCH_ROWS:,} rows"
    )
    print("\n".join(table(cost)))


if __name__ == "__main__":
    main()
