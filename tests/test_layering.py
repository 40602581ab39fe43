"""Who may import whom: `linkpass` and `unwind` build on `icf`, and on nothing else of the project.

What the two exchange is bytes in formats that `icf` owns. The check reads every import in every file,
those inside of functions too; the umbrella command names its verbs as strings, which are not imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "icf": {"icf"},
    "linkpass": {"linkpass", "icf"},
    "unwind": {"unwind", "icf"},
}


def imported_packages(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and top-level package of each import; a relative one imports the file's own package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, package if node.level else (node.module or "").partition(".")[0]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        for line, name in imported_packages(file.read_text(), package):
            if name in MAY_IMPORT:
                assert name in MAY_IMPORT[package], f"{file.relative_to(ROOT)}:{line}: {package} imports {name}"


def test_nothing_imports_the_tests() -> None:
    for package in MAY_IMPORT:
        for file in (ROOT / package).rglob("*.py"):
            names = {name for _, name in imported_packages(file.read_text(), package)}
            assert "tests" not in names, file


def test_the_check_sees_imports_inside_of_functions() -> None:
    source = "def f():\n    from unwind.resolve.resolver import resolve\n    import linkpass.rewrite.sections as r\n"
    assert list(imported_packages(source, "icf")) == [(2, "unwind"), (3, "linkpass")]
