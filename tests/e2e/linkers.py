"""The linkers that links are tried with."""

from __future__ import annotations

import pytest

from tests.support.toolchain import tool

LINKERS = pytest.mark.parametrize("linker", ["lld", "gold", "mold"])


def linker_of(name: str) -> str:
    """The option that chooses a linker; skips the test if it is missing."""
    tool(f"ld.{name}")
    return f"-fuse-ld={name}"
