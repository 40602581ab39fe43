"""The small damaged files of testdata/corrupt: each is refused, or read in part, with exactly one known line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.program import icf

CORRUPT = Path(__file__).resolve().parents[2] / "testdata" / "corrupt"
MESSAGES = dict(line.split(": ", 1) for line in (CORRUPT / "messages").read_text().splitlines())


@pytest.mark.parametrize("name", MESSAGES)
def test_each_kind_of_damage_has_its_message(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(shutil.copy(CORRUPT / name, tmp_path))
    before = path.read_bytes()
    read_in_part = MESSAGES[name].startswith("icf: warning: ")
    icf("pass", path, "-o", tmp_path / "out", status=0 if read_in_part else 1)
    assert capsys.readouterr().err.splitlines()[0] == MESSAGES[name].replace("IMAGE", str(path))
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == sorted([name, "out"] if read_in_part else [name])


def test_every_file_has_a_message() -> None:
    assert set(os.listdir(CORRUPT)) == {*MESSAGES, "build", "messages", "tiny"}


def test_the_file_that_they_are_made_from_is_whole(tmp_path: Path) -> None:
    path = Path(shutil.copy(CORRUPT / "tiny", tmp_path))
    assert "2 functions share 1 of 2 bodies" in icf("pass", path)
    assert "2 call sites, 0 tail calls: all agree with the code" in icf("verify", path)
