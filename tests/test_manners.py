"""Library manners: only commands write to stdout and stderr; everything else reports through `icf.log`."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT

# the commands; what writes a log as lines; what passes on what a linker writes
WRITERS = {
    "icf/cli.py",
    "icf/printable.py",
    "icf/log.py",
    "linkpass/link/run.py",
    "linkpass/link/pe_link.py",
    "unwind/arrow/reading.py",
    "unwind/output.py",
}


def writes(source: str) -> Iterator[int]:
    """Yield the line of each use of `print`, `say`, `sys.stdout.write` and the like."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "say"):
            yield node.lineno
        if isinstance(node, ast.Attribute) and node.attr in ("write", "writelines", "buffer", "flush"):
            of = node.value
            if isinstance(of, ast.Attribute) and of.attr in ("stdout", "stderr"):
                yield node.lineno


def test_only_commands_write() -> None:
    found = []
    for package in ("icf", "linkpass", "unwind"):
        for file in (ROOT / package).rglob("*.py"):
            name = str(file.relative_to(ROOT))
            if name not in WRITERS and not file.name.startswith("cmd_"):
                found += [f"{name}:{line}" for line in writes(file.read_text())]
    assert found == []


@pytest.mark.parametrize("source", ["print(1)", "say('x')", "import sys\nsys.stderr.write('x')", "sys.stdout.buffer"])
def test_the_check_finds_what_writes(source: str) -> None:
    assert list(writes(source))


SCRIPT = """
import logging, sys
sys.argv[1:] = ["x"]
{before}
from icf.log import note, warn
warn("a", "b")
note("c")
"""


def test_a_library_is_silent() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(before="")], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_program_routes_what_is_reported() -> None:
    before = "logging.basicConfig(level=logging.INFO, format='%(name)s %(levelname)s %(message)s', stream=sys.stdout)"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout == "icf WARNING a\nicf INFO c\n" and done.stderr == ""


def test_a_command_shows_lines(capsys: pytest.CaptureFixture[str]) -> None:
    from icf import log

    log.show_lines()
    log.warn("a", "b\x1b")
    log.note("c")
    assert capsys.readouterr().err == "icf: warning: a\nhint: b\\x1b\nicf: c\n"
    assert logging.getLogger("icf").handlers
