"""Stacks in a DataFrame of Spark.

from unwind.batch.spark import resolve_stacks
from unwind.batch.worker import Job, manifest_of

job = Job(symcaches="s3://bucket/symcaches", manifest=manifest_of("manifest"))
resolve_stacks(spark.read.parquet("stacks"), job).write.parquet("answers")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from unwind.arrow.answers import as_plain
from unwind.batch.worker import Job, resolve_batches

SCHEMA = (
    "frames array<struct<address: bigint, verdict: string, name: string, linkage_name: string, candidates:"
    " array<string>, file: string, line: int>>, weight bigint, problem string"
)


def resolve_stacks(stacks: Any, job: Job) -> Any:
    """Return the answers for the stacks of a DataFrame, with the columns of `unwind.arrow.answers`.

    The rows of a partition keep their order. Spark has no unsigned numbers, so addresses of 2**63 and more are
    negative, and no dictionaries: texts are copied for each row.
    """
    return stacks.mapInArrow(partial(_resolve, job), SCHEMA)


def _resolve(job: Job, batches: Iterable[Any]) -> Iterator[Any]:
    return map(as_plain, resolve_batches(job, batches))
