"""What a pass and an annotation import: for a small program, imports take most of their time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

SHOP = ROOT / "testdata" / "shop" / "shop.gold"
IMPORTED = """
import sys
from icf.cli import main
status = main(sys.argv[1:])
print(*sys.modules)
sys.exit(status)
"""


def modules_of(*arguments: str | Path) -> set[str]:
    """Return the modules that a command has imported when it is done."""
    command = [sys.executable, "-c", IMPORTED, *map(str, arguments)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_a_pass_imports_neither_masked_arrays_nor_logging_nor_what_reads_windows(tmp_path: Path) -> None:
    """The former come with functions of numpy for sets (`icf.sets`), also in a thread, which is to import nothing."""
    source, made, report = tmp_path / "one.c", tmp_path / "one.o", tmp_path / "report"
    source.write_text("int without_relocations;")
    subprocess.run(["gcc", "-c", source, "-o", made], check=True)
    report.touch()  # the pass takes its tables for old ones
    imported = modules_of("pass", SHOP, "-q", "--icf-report", report, "--objects", made, "-o", tmp_path / "out")
    assert "linkpass.steps" in imported
    assert not imported & {"numpy.ma", "icf.pe.image", "icf.pdb", "icf.coff", "logging", "concurrent.futures", "Cython"}


def test_an_annotation_imports_no_demangling(tmp_path: Path) -> None:
    source, made = tmp_path / "one.c", tmp_path / "one.o"
    source.write_text("static __attribute__((noinline)) int two(int n) { return n; } int one() { return two(1); }")
    subprocess.run(["gcc", "-O0", "-c", source, "-o", made], check=True)
    imported = modules_of("annotate", made)
    assert "linkpass.annotate" in imported
    assert not imported & {"numpy", "icf.demangle"}
