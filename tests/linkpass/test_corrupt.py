"""The small damaged files of testdata/corrupt: each is refused, or read in part, with exactly one known line.

`messages` says with which. The command is `icf pass`, where `commands` names no other.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.support.paths import ROOT

CORRUPT = ROOT / "testdata" / "corrupt"
SOUND = ("tiny", "tiny.o")


def table(name: str) -> dict[str, str]:
    """A file of `key: value` lines."""
    return dict(line.split(": ", 1) for line in (CORRUPT / name).read_text().splitlines())


MESSAGES, COMMANDS = table("messages"), table("commands")


@pytest.mark.parametrize("name", MESSAGES)
def test_each_kind_of_damage_has_its_message(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(shutil.copy(CORRUPT / name, tmp_path))
    before = path.read_bytes()
    read_in_part = MESSAGES[name].startswith("icf: warning: ")
    words = COMMANDS.get(name, "pass NAME -o OUT").split()
    places = {"NAME": str(path), "@NAME": f"@{path}", "OUT": str(tmp_path / "out")}
    places |= {other: str(CORRUPT / other) for other in os.listdir(CORRUPT)}
    places["shop.exe"] = str(ROOT / "testdata" / "pe" / "shop.exe")
    icf(*(places.get(word, word) for word in words), status=0 if read_in_part else 1)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("icf: error", "icf: warning"))]
    expected = re.sub(r"\bFILE\b", lambda _: str(path), MESSAGES[name])  # not that of NT_FILE
    assert said[0] == expected and (read_in_part or len(said) == 1)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == sorted([name, "out"] if read_in_part else [name])


def test_every_file_has_a_message() -> None:
    assert set(os.listdir(CORRUPT)) == {*MESSAGES, "build", "commands", "messages", *SOUND}
    assert COMMANDS.keys() <= MESSAGES.keys()


def test_the_files_that_they_are_made_from_are_whole(tmp_path: Path) -> None:
    path = Path(shutil.copy(CORRUPT / "tiny", tmp_path))
    assert "2 functions share 1 of 2 bodies" in icf("pass", path, "--objects", CORRUPT / "tiny.o")
    assert "2 call sites, 0 tail calls, 0 virtual calls, 0 vtables: all agree with the code" in icf("verify", path)
