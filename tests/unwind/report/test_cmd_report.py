"""`icf report` as a command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from icf import cli
from linkpass import Options, run_pass
from tests.support.paths import ROOT

SHOP = ROOT / "testdata" / "shop"
STACKS = [json.loads(line)["stack"] for line in (SHOP / "shop.gold.json").read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory: the image with its tables, and its stacks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copy(SHOP / "shop.gold", "shop")
    run_pass("shop", Options())
    (tmp_path / "stacks.txt").write_text("".join(f"{stack}\n" for stack in STACKS))
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *args: str, status: int = 0) -> tuple[str, str]:
    assert cli.main(["report", *args]) == status
    captured = capsys.readouterr()
    return captured.out, captured.err


def embedded(page: str) -> dict[str, Any]:
    data = page.partition('id="report">')[2].partition("</script>")[0]
    read: dict[str, Any] = json.loads(data)
    return read


@pytest.mark.usefixtures("folder")
def test_an_image(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = printed(capsys, "shop", "--json")
    document = json.loads(out)
    assert document["profile"] is None
    assert document["images"][0]["saved_bytes"] == 305
    assert [body["saved_bytes"] for body in document["bodies"]] == [152, 118, 35]
    page, _ = printed(capsys, "shop", "-o", "-")
    assert embedded(page) == document


@pytest.mark.usefixtures("folder")
def test_the_table_of_an_image(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = printed(capsys, "shop")
    lines = out.splitlines()
    assert lines[:2] == [
        "shop: 8 functions share 3 bodies",
        "305 bytes of code saved; frames of 0 bodies may stay ambiguous",
    ]
    assert [int(line.split()[0]) for line in lines[4:]] == [152, 118, 35]
    assert "List<Order>::grow() | List<Payment>::grow() | List<Session>::grow()" in out


@pytest.mark.usefixtures("folder")
def test_the_table_of_a_profile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each stack has another function in the place of the one that was kept."""
    out, _ = printed(capsys, "-e", "shop", "stacks.txt")
    rows = {line[50:]: line[:46].replace(" %", "").split() for line in out.splitlines()[6:]}
    assert out.startswith("3 samples\n 100.0 %  have a frame with another name than before\n")
    assert rows["main"] == ["-", "-", "100.0", "100.0"]
    assert rows["sample_allocation(unsigned long)"] == ["100.0", "100.0", "100.0", "100.0"]
    assert rows["List<Payment>::grow()"] == ["-", "-", "-", "33.3"]
    (folder / "stacks.txt").write_text("".join(f"{stack}\n" for stack in STACKS * 50_000))
    many, _ = printed(capsys, "-e", "shop", "stacks.txt")
    assert many.splitlines()[1:] == out.splitlines()[1:]


@pytest.mark.usefixtures("folder")
def test_stacks_of_an_image(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = printed(capsys, "-e", "shop", "stacks.txt", "--json")
    profile = json.loads(out)["profile"]
    assert (profile["format"], profile["weight"], profile["changed"]) == ("pcs", 3, 3)
    assert "List<Payment>::grow()" in profile["names"]
    assert len({len(profile["after"][column]) for column in ("depth", "kind", "weight", "name", "other")}) == 1


def test_the_page_is_written_as_a_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "-e", "shop", "stacks.txt", "-o", "report.html")
    page = (folder / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and embedded(page)["profile"]["samples"] == 3
    (folder / "bad.txt").write_text(f"{STACKS[0]}\nnonsense\n")
    _, err = printed(capsys, "-e", "shop", "bad.txt", "-o", "report.html", status=1)
    assert err.startswith("icf: error: bad.txt:2:") and len(err.splitlines()) == 1
    assert embedded((folder / "report.html").read_text())["profile"]["samples"] == 1  # what stands before
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_what_the_report_is_about_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (folder / "shop").read_bytes()
    for args in (["shop"], ["-e", "shop", "stacks.txt"]):
        _, err = printed(capsys, *args, "-o", "./shop", status=1)
        assert err.splitlines()[0] == "icf: error: ./shop: is read by this command, and not overwritten"
    assert (folder / "shop").read_bytes() == content


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["stacks.txt"], "stacks.txt: has addresses alone"),
        (["-e", "shop", "stacks.txt", "--value", "space"], "stacks.txt: has no value 'space'"),
        (["gone"], "gone: No such file or directory"),
        (["empty"], "empty: is empty"),
    ],
)
def test_what_cannot_be_reported(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").touch()
    _, err = printed(capsys, *args, "--json", status=1)
    assert err.splitlines()[0] == f"icf: error: {message}"


def test_nothing_known_is_a_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "far.txt").write_text("0x7f0000000000\n")
    _, err = printed(capsys, "-e", "shop", "far.txt", "-o", "report.html", status=1)
    assert err == "icf: every frame of every stack is unknown\n"
    assert (folder / "report.html").exists()
