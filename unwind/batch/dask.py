"""Stacks in a DataFrame of Dask.

from unwind.batch.dask import resolve_stacks
from unwind.batch.worker import Job

resolve_stacks(dask.dataframe.read_parquet("stacks"), Job("/srv/shop")).to_parquet("answers")
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from unwind.arrow.answers import plain_schema
from unwind.batch.worker import Job, resolve_batches


def resolve_stacks(stacks: Any, job: Job) -> Any:
    """Return the answers for the stacks of a DataFrame, with its index and the columns of `unwind.arrow.answers`.

    Addresses of 2**63 and more are negative.
    """
    return stacks.map_partitions(_resolve, job, meta=_frame([], None))


def _resolve(part: pd.DataFrame, job: Job) -> pd.DataFrame:
    table = pa.Table.from_pandas(part, preserve_index=False)
    return _frame(list(resolve_batches(job, table.to_batches())), part.index)


def _frame(batches: list[Any], index: Any) -> pd.DataFrame:
    frame: pd.DataFrame = pa.Table.from_batches(batches, plain_schema()).to_pandas(types_mapper=pd.ArrowDtype)
    return frame if index is None else frame.set_index(index)
