"""`icf pass` as a command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from icf.cli import main
from tests.support.paths import ROOT

SHOP = ROOT / "testdata" / "shop"


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ("-o out --keep-unique-out shop", "shop"),
        ("-o out --icf-report folds --keep-unique-out folds", "folds"),
        ("--icf-report folds -o ./folds", "./folds"),
        ("-o out --objects a.o --keep-unique-out a.o", "a.o"),
        ("--objects a.o -o a.o", "a.o"),
    ],
)
def test_no_input_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], options: str, output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SHOP / "shop.gold", "shop")
    for name in ("folds", "a.o"):
        Path(name).write_text("\n")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert main(["pass", "shop", *options.split()]) == 1
    assert f"icf: error: {output}: is read by this command, and not overwritten\n" in capfd.readouterr().err
    assert before == {path: path.read_bytes() for path in Path().iterdir()}
