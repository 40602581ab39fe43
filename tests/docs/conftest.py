"""What the tests of the documentation start with."""

from __future__ import annotations

from tests.support.wheel import installed, of_run, sdist

__all__ = ["installed", "of_run", "sdist"]
