"""What holds for every input of every fuzz test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_swallowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An IndexError that is lost in a nogil helper of a kernel shows here alone."""
    swallowed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", swallowed.append)
    yield
    assert not swallowed
