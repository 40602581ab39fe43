"""The PE image in testdata, with its PDB and object: what is known of it needs no compiler."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.support.icf_command import icf_command
from tests.support.paths import ROOT

KEPT = ROOT / "testdata" / "pe"


def icf(*words: str | Path, stdin: str = "") -> str:
    done = subprocess.run([*icf_command(), *map(str, words)], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_calls_of_merged_functions_are_named(tmp_path: Path) -> None:
    for name in ("shop.exe", "shop.pdb", "shop.obj"):
        shutil.copy(KEPT / name, tmp_path)
    image = tmp_path / "shop.exe"
    summary = json.loads(icf("pass", image, "--json", "--objects", tmp_path / "shop.obj"))
    assert (summary["members"], summary["merged_bodies"], summary["dropped"]) == (10, 5, {})
    assert summary["named_calls"] == summary["direct_calls"] == 6
    records = json.loads(icf("dump", "--dcall", "--folds", "--json", image))
    stacks, expected = [], []
    for each in records["direct_calls"]:
        holder = next(
            fold for fold in records["classes"] if each["callee"] in [one["linkage_name"] for one in fold["members"]]
        )
        stacks.append(f"{int(holder['address'], 16) + 1:#x} {each['call_site']}\n")
        expected.append(each["callee"])
    said = icf("resolve", "-e", image, "--out", "json", "--cache-dir", tmp_path / "cache", stdin="".join(stacks))
    assert [json.loads(line)["frames"][0]["linkage_name"] for line in said.splitlines()] == expected
    shown = icf("symbolize", "-e", image, "--candidates", "--cache-dir", tmp_path / "cache", stacks[0].split()[0])
    assert shown.count("/tmp/shop/shop.cpp:") >= 2
