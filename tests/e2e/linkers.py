"""The linkers that links are tried with."""

from __future__ import annotations

from pathlib import Path

import pytest

LINKERS = pytest.mark.parametrize("linker", ["lld", "gold", "mold"])


def linker_of(folder: Path, name: str) -> str:
    """The option that chooses a linker, if there is that linker."""
    if not (folder / f"ld.{name}").exists():
        pytest.skip(f"no ld.{name}")
    return f"-fuse-ld={name}"
