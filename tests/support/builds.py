"""A kernel as plain Python, beside the installed build of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any


def uncompiled(kernel: ModuleType) -> Any:
    """The source of `kernel`, run as Python."""
    source = Path(kernel.__file__ or "").with_name(f"{kernel.__name__.rpartition('.')[2]}.py")
    spec = importlib.util.spec_from_file_location(f"uncompiled{source.stem}", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
