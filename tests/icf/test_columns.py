"""The types of columns have one home."""

from __future__ import annotations

import re
from pathlib import Path

import icf.columns

ROOT = Path(icf.columns.__file__).resolve().parent.parent
_ALIAS = re.compile(r"^\w+ = (?:npt\.)?NDArray\[np\.(?!void)", re.MULTILINE)


def test_no_other_file_defines_a_type_of_columns() -> None:
    found = {
        str(file.relative_to(ROOT))
        for package in ("icf", "linkpass", "unwind")
        for file in (ROOT / package).rglob("*.py")
        if _ALIAS.search(file.read_text())
    }
    assert found == {"icf/columns.py"}
