"""Stacks in Parquet, and those of the program in testdata, for tests."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.support.paths import ROOT

Stack = Sequence[int | None]

SHOP = ROOT / "testdata" / "shop"
LINES = [json.loads(line) for line in (SHOP / "shop.gold.json").read_text().splitlines()]
STACKS: list[Stack] = [[None if word == "?" else int(word, 16) for word in line["stack"].split()] for line in LINES]


def batch(stacks: Sequence[Stack], weights: Sequence[int] = (), **more: Any) -> Any:
    """Return a record batch of stacks; `more` are further columns."""
    pa = pytest.importorskip("pyarrow")
    columns = {
        "addresses": pa.array(stacks, pa.list_(pa.uint64())),
        "weight": pa.array(weights or [1] * len(stacks), pa.int64()),
        **more,
    }
    return pa.RecordBatch.from_pydict(columns)


def parquet(*batches: Any, metadata: Mapping[str, str] | None = None, **options: Any) -> bytes:
    """Return a file of record batches."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    out = io.BytesIO()
    pq.write_table(pa.Table.from_batches(batches).replace_schema_metadata(metadata), out, **options)
    return out.getvalue()
