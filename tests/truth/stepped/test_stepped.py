"""A few themes at every instruction: no name may be wrong, and a wrong one must show."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.icf_command import icf_command
from tests.truth.programs import Unavailable
from tests.truth.stepped.__main__ import main
from tests.truth.stepped.align import Diverged, Frame, align
from tests.truth.stepped.builds import build
from tests.truth.stepped.identity import function_of
from tests.truth.stepped.measure import Result, measure, prepare, run_both
from tests.truth.stepped.score import is_true
from tests.truth.stepped.themes import THEMES
from tests.truth.tool import default_command

PLANTED = """\
import re, subprocess, sys
done = subprocess.run([*{command!r}, *sys.argv[1:]], capture_output=True, text=True)
out = done.stdout
if "resolve" in sys.argv:
    out = re.sub(r'("linkage_name": *)"_ZN4LinkI1AE4lastEl"', r'\\1"_ZN4LinkI1BE4lastEl"', out)
sys.stdout.write(out); sys.stderr.write(done.stderr)
sys.exit(done.returncode)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stepped")


def _measure(theme: str, compiler: str, linker: str, evidences: list[str], cache: Path, work: Path) -> Result:
    try:
        return measure(build(THEMES[theme], compiler, linker, cache), evidences, list(icf_command()), work)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(
    ("theme", "compiler", "linker", "evidence"),
    [
        ("inheritance", "clang-O2", "lldr", "image"),
        ("tails", "gcc-O2", "gold", "objects"),
        ("loaded", "clang-O2", "lld", "objects"),
    ],
)
def test_no_frame_at_any_instruction_is_wrong(
    theme: str, compiler: str, linker: str, evidence: str, cache: Path, tmp_path: Path
) -> None:
    result = _measure(theme, compiler, linker, [evidence], cache, tmp_path)
    assert not result.problems
    score = result.scores[evidence]
    assert not score.findings
    assert score.merged.total() > 500
    assert score.merged["right"] > score.merged["open"]
    assert score.unmerged["right"] == score.unmerged.total() > 1000


def test_a_wrong_name_is_found(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = tmp_path / "planted.py"
    tool.write_text(PLANTED.format(command=default_command()))
    options = ["--theme", "tails", "--compiler", "gcc-O2", "--linker", "gold", "--evidence", "objects"]
    status = main([*options, "--cache", str(cache), "--tool", f"{sys.executable} {tool}"])
    shown = capsys.readouterr().out
    if "left out" in shown:
        pytest.skip(shown)
    assert status == 1
    assert "is _ZN4LinkI1AE4lastEl, said unique: _ZN4LinkI1BE4lastEl" in shown


def test_runs_that_differ_are_refused(cache: Path, tmp_path: Path) -> None:
    try:
        built = build(THEMES["tails"], "gcc-O2", "gold", cache)
    except Unavailable as reason:
        pytest.skip(str(reason))
    folding = prepare(built, built.folded)
    unfolded, folded = run_both(built, built.folded, folding, tmp_path)
    align(folding, {}, unfolded, folded)
    with pytest.raises(Diverged, match="steps without folding"):
        align(folding, {}, unfolded, replace(folded, steps=folded.steps[:-1]))
    steps = folded.steps.copy()
    steps[700] = steps[1]
    with pytest.raises(Diverged, match=r"step 700: \d frames without folding, 1 with"):
        align(folding, {}, unfolded, replace(folded, steps=steps))


@pytest.mark.parametrize(
    ("name", "other", "is_one"),
    [
        ("_ZN1AC1Ev", "_ZN1AC2Ev", True),
        ("_ZN1AD2Ev", "_ZN1AD0Ev", False),  # it deletes, too
        ("_ZN7DerivedD2Ev", "_ZN4BaseD2Ev", False),
        ("_Z1fv.cold", "_Z1fv", True),
        ("_Z1fv.part.0", "_Z1fv", True),
        ("_Z1fv.resume", "_Z1fv", True),
        ("init@a.c", "init@b.c", False),
        ("f.llvm.1", "f.llvm.2", False),
    ],
)
def test_one_function_is_one_linkage_name(name: str, other: str, is_one: bool) -> None:
    assert (function_of(name) == function_of(other)) is is_one


def test_a_frame_is_of_its_file() -> None:
    frame = Frame(0, 0, True, ("init@a.c",), ("init@a.c", "init@b.c"))
    assert is_true("init", "/src/a.c", frame)
    assert not is_true("init", "/src/b.c", frame)
