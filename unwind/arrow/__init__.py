"""Stacks and answers as columns of Apache Arrow.

pyarrow is large, and not every installation has it: what is in this folder is imported where such columns are asked
for, after `need_pyarrow`.
"""

from __future__ import annotations

from importlib.util import find_spec

from icf.errors import IcfError


def need_pyarrow() -> None:
    """Raise `IcfError` where pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise IcfError("Parquet needs pyarrow, which is not installed", hint="pip install 'icf-toolchain[parquet]'")
