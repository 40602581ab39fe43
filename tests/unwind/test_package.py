"""What `unwind` has for other programs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import unwind


@pytest.mark.parametrize("name", ["Resolver", "SymCache", "Symbolizer", "open_or_build", "open_by_build_id"])
def test_the_package_has_what_other_programs_use(name: str) -> None:
    assert getattr(unwind, name).__name__ == name and name in unwind.__all__


def test_what_the_package_does_not_have() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Unknown'"):
        _ = unwind.Unknown


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = "import sys, unwind; print([name for name in sys.modules if name.startswith(('unwind.', 'icf'))])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
