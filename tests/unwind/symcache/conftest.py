"""A program and a folder for symcaches."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from icf.log import show_lines
from tests.unwind.symcache.support import SHOP, aged
from unwind.symcache.store import folder as folders


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A program whose file has not changed for a while."""
    return aged(Path(shutil.copy(SHOP, tmp_path / "shop")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def fresh_warnings() -> Iterator[None]:
    folders._complained.clear()
    show_lines()
    yield
