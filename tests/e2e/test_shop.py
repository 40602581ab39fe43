"""The checked-in programs and the demo: what works on a machine without any compiler."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.support.paths import ROOT

SHOP = ROOT / "testdata" / "shop"


@pytest.mark.parametrize("linker", ["gold", "lld"])
def test_every_frame_of_the_shop_is_named_rightly(linker: str, tmp_path: Path) -> None:
    image = Path(shutil.copy(SHOP / f"shop.{linker}", tmp_path))
    recorded = [json.loads(line) for line in (SHOP / f"shop.{linker}.json").read_text().splitlines()]
    (tmp_path / "stacks").write_text("".join(f"{stack['stack']}\n" for stack in recorded))
    icf("pass", image)
    icf("verify", image)
    lines = icf("resolve", "-e", image, "--out", "json", tmp_path / "stacks").splitlines()
    stacks = [json.loads(line)["frames"] for line in lines]
    names = [[frame["linkage_name"] for frame in frames] for frames in stacks]
    assert names == [stack["truth"] for stack in recorded]


def test_without_the_pass_the_shop_is_not_guessed(tmp_path: Path) -> None:
    recorded = [json.loads(line) for line in (SHOP / "shop.gold.json").read_text().splitlines()]
    (tmp_path / "stacks").write_text("".join(f"{stack['stack']}\n" for stack in recorded))
    lines = icf("resolve", "-e", SHOP / "shop.gold", "--out", "json", tmp_path / "stacks").splitlines()
    for line, stack in zip(lines, recorded, strict=True):
        frames = json.loads(line)["frames"]
        for frame, truth in zip(frames, stack["truth"], strict=True):
            assert frame["linkage_name"] in (None, truth)


def test_the_demo_runs_and_has_no_wrong_name() -> None:
    done = subprocess.run([sys.executable, "-m", "demo.run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 with icf" in done.stdout
    assert "\033" not in done.stdout
