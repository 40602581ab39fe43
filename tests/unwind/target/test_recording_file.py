"""Recordings opened from Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import unwind
from icf.errors import FormatError, IcfError
from linkpass import Options, run_pass
from tests.support.paths import ROOT

FOLDED = "main;shop+0x74a;shop+0x8ff;shop+0x8e5;shop+0x87e 3\nidle 2\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))
    run_pass(str(shutil.copy(ROOT / "testdata" / "shop" / "shop.gold", tmp_path / "shop")), Options())
    return tmp_path


def test_samples_and_answers(folder: Path) -> None:
    (folder / "c").write_text(FOLDED)
    with unwind.open_recording(folder / "c", losses=unwind.Losses.NONE) as samples:
        (first, answers), (second, _) = samples
    assert (first.weights, second.weights) == ((3,), (2,))
    assert [answer.name for answer in answers][1:] == [
        "List<Payment>::add(Payment*)",
        "Ledger::post(Payment*)",
        "main",
        None,
    ]
    assert answers[-1].recorded_name == "main"


def test_what_is_no_recording(folder: Path) -> None:
    (folder / "s").write_text("0x74a 0x8ff\n")
    with pytest.raises(IcfError, match="addresses alone"), unwind.open_recording("s"):
        pass
    (folder / "n").write_text("hello, world\n")
    with pytest.raises(FormatError, match="is in no format"), unwind.open_recording("n"):
        pass
    with pytest.raises(IcfError, match="No such file"), unwind.open_recording("gone"):
        pass


def test_what_stands_before_damage_is_given(folder: Path) -> None:
    (folder / "c").write_text(FOLDED + "no count\n")
    with unwind.open_recording("c", format="collapsed") as samples:
        assert next(samples).sample.weights == (3,)
        assert next(samples).sample.weights == (2,)
        with pytest.raises(FormatError, match="c:3: "):
            next(samples)
