"""The record batches of results: a row for each stack, in order.

frames    list of struct, one for each address (`unwind.arrow.frames`)
weight    int64
problem   string: null, or which modules of the stack were not found, so that their frames are unknown
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from unwind.arrow.frames import FRAME

SCHEMA = pa.schema(
    [
        pa.field("frames", pa.list_(FRAME), nullable=False),
        pa.field("weight", pa.int64(), nullable=False),
        pa.field("problem", pa.dictionary(pa.int32(), pa.string())),
    ]
)


def plain_schema() -> Any:
    """Return the schema of results without dictionaries and unsigned numbers, as engines take it."""
    return pa.schema([pa.field(each.name, _plain(each.type), nullable=each.nullable) for each in SCHEMA])


def as_plain(batch: Any) -> Any:
    """Return results without dictionaries and unsigned numbers: addresses of 2**63 and more become negative."""
    schema = plain_schema()
    columns = [_as(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(kind: Any) -> Any:
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _plain(each.type)) for each in kind])
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.int64() if pa.types.is_uint64(kind) else kind


def _as(column: Any, kind: Any) -> Any:
    """Return a column with another type; numbers keep their bits."""
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(column.offsets, _as(column.values, kind.value_type), type=kind)
    if pa.types.is_struct(kind):
        parts = [_as(column.field(idx), each.type) for idx, each in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    if pa.types.is_uint64(column.type):
        return column.view(kind)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
