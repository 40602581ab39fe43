"""Stacks in a DataFrame of Dask.

from unwind.batch.dask import resolve_stacks
from unwind.batch.worker import Job

stacks = dask.dataframe.read_parquet("stacks", dtype_backend="pyarrow")
answers = resolve_stacks(stacks, Job("/srv/shop"))
answers.to_parquet("answers", compute=False, **OPTIONS).optimize().compute(scheduler="processes")

With `dtype_backend` lists stay columns. With `optimize` one task reads a partition, resolves and writes it: without it
the partition is sent from process to process. OPTIONS of `unwind.arrow.sink` halve the time of writing.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from unwind.arrow.answers import SCHEMA
from unwind.batch.worker import Job, resolve_batches


def resolve_stacks(stacks: Any, job: Job) -> Any:
    """Return the answers for the stacks of a DataFrame, with its index and the columns of `unwind.arrow.answers`."""
    return stacks.map_partitions(_resolve, job, meta=_frame([], None))


def _resolve(part: pd.DataFrame, job: Job) -> pd.DataFrame:
    table = pa.Table.from_pandas(part, preserve_index=False)
    return _frame(list(resolve_batches(job, table.to_batches())), part.index)


def _frame(batches: list[Any], index: Any) -> pd.DataFrame:
    # a file with one dictionary for all has it once; with several, it has the texts themselves
    answers = pa.Table.from_batches(batches, SCHEMA).unify_dictionaries()
    frame: pd.DataFrame = answers.to_pandas(types_mapper=pd.ArrowDtype)
    return frame if index is None else frame.set_index(index)
