"""Fixtures of the end-to-end tests: a workshop for each toolchain the test asks for, by default the two usual ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.links import compiled, link
from tests.e2e.workshop import USUAL, Toolchain, Workshop

__all__ = ["compiled", "link", "toolchain", "workshop"]


@pytest.fixture(params=USUAL, ids=str)
def toolchain(request: pytest.FixtureRequest) -> Toolchain:
    """`@pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)` asks for others."""
    chosen: Toolchain = request.param
    return chosen


@pytest.fixture
def workshop(tmp_path: Path, toolchain: Toolchain) -> Workshop:
    """A folder to build in."""
    return Workshop(tmp_path, toolchain)
