"""Every test can fail by what it compares: it asserts, or calls a helper whose name says that it does.

Such a helper is called `check...` or `assert...`; `pytest.raises` asserts, too. A test without any only shows that
nothing else was raised.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT

NAMES = ("check", "_check", "assert", "raises")


def asserts(function: ast.AST) -> bool:
    """Whether a function has an assertion, or calls what is named after one."""
    for node in ast.walk(function):
        called = node.func if isinstance(node, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if isinstance(node, ast.Assert) or name.startswith(NAMES):
            return True
    return False


def without_assertion(source: str) -> Iterator[str]:
    """The names of the test functions of a module that assert nothing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not asserts(node):
            yield node.name


def test_every_test_asserts() -> None:
    found = {
        f"{path.relative_to(ROOT)}::{name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in without_assertion(path.read_text())
    }
    assert found == set()


@pytest.mark.parametrize(
    ("line", "is_found"),
    [("run()", True), ("run(check=True)", True), ("assert run()", False), ("program.check()", False)],
)
def test_a_planted_test_without_assertion_is_found(line: str, is_found: bool) -> None:
    source = f"def test_it():\n    {line}\ndef helper():\n    run()\n"
    assert list(without_assertion(source)) == (["test_it"] if is_found else [])
