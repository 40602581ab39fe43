"""A made PDB has the functions of all copies, merged, and the figures of reading it beside llvm-pdbutil's."""

from __future__ import annotations

from pathlib import Path

from tests.bench import pdbs
from tests.e2e.program import icf
from tests.support.toolchain import tool


def test_a_made_pdb_has_the_functions_of_all_copies(tmp_path: Path) -> None:
    tool("llvm-pdbutil")
    figures = pdbs.bench_pdb(tmp_path, 3, 1, kind_count=4)
    assert all(figures[f"{name}_cpu_s"] for name in ("llvm_pdbutil", "index", "symcache"))
    folds = icf("dump", "--folds", tmp_path / "app.exe")
    for number in range(3):
        assert f"Box<struct N{number:05}::Record3 *, 3>::get(int)" in folds
