"""What a test logs or prints never ends the worker that runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

ODD = r"""
import logging
import os
import sys

NAME = os.fsdecode(b"\xff.o")


def test_a_name_that_is_no_text():
    logging.getLogger("icf").warning("%s: is odd", NAME)
    sys.stderr.write("\udcfe")
    assert NAME == "", NAME
"""


def test_names_that_are_no_utf8_are_reported_by_a_worker(tmp_path: Path) -> None:
    path = tmp_path / "test_odd.py"
    path.write_text(ODD)
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "tests.conftest", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout + done.stderr
    assert "crashed" not in done.stdout and r"\udcff.o" in done.stdout
