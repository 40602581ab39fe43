"""The helper's client: no question waits longer than it may, and what comes late is not mixed up."""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from unwind.debugger.inside.client import Helper, NoAnswer

INSIDE = ROOT / "unwind" / "debugger" / "inside"
LATE = "import sys, time, json\ntime.sleep(1.5)\nfor line in sys.stdin:\n print(line.strip(), flush=True)"
DEAF = "import time\ntime.sleep(60)"
ENDS = "import sys\nsys.stdin.readline()"


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[Callable[[str], Helper]]:
    """Make the helper that runs a script, whatever arguments it gets."""
    made: list[Helper] = []

    def make(source: str) -> Helper:
        (tmp_path / "script.py").write_text(source)
        made.append(Helper([sys.executable, str(tmp_path / "script.py")]))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def test_what_comes_late_answers_no_other_question(helper: Callable[[str], Helper]) -> None:
    late = helper(LATE)
    with pytest.raises(NoAnswer, match=r"no answer after 0\.2 s: ask again later"):
        late.ask({"name": "first"}, 0.2)
    assert late.ask({"name": "second"}, 30) == {"name": "second", "id": 2}
    assert late.ask({"name": "x" * 1_000_000}, 30)["name"] == "x" * 1_000_000  # more than a socket holds


def test_a_helper_that_reads_nothing_is_not_waited_for(helper: Callable[[str], Helper]) -> None:
    deaf, began = helper(DEAF), time.monotonic()
    for _ in range(3):
        with pytest.raises(NoAnswer, match="no answer after 0.3 s"):
            deaf.ask({"name": "x" * 1_000_000}, 0.3)
    assert time.monotonic() - began < 20


def test_a_helper_that_has_ended_is_started_again(helper: Callable[[str], Helper]) -> None:
    ends = helper(ENDS)
    for _ in range(2):
        with pytest.raises(NoAnswer, match="the helper has ended: what does '.*script.py gdb --serve' say?"):
            ends.ask({}, 30)


def test_what_runs_in_a_debugger_is_for_older_pythons_and_imports_the_standard_library_alone() -> None:
    files = sorted(INSIDE.glob("*.py"))
    assert len(files) > 8
    for file in files:
        tree = ast.parse(file.read_text(), feature_version=(3, 8))
        for node in ast.walk(tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                is_known = name.partition(".")[0] in {*sys.stdlib_module_names, "gdb", "lldb"}
                assert is_known or name.startswith("unwind.debugger.inside"), f"{file.name}: {name}"
