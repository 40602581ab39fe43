"""Files that older versions wrote: those that are read have the answers of today, the others say what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from icf.tables.icftable import VERSION as TABLES_VERSION
from tests.e2e.program import icf
from tests.support.paths import ROOT
from unwind.symcache.format.container import VERSION as SYMCACHE_VERSION

COMPAT, SHOP = ROOT / "testdata" / "compat", ROOT / "testdata" / "shop"
RECORDED = [json.loads(line) for line in (SHOP / "shop.gold.json").read_text().splitlines()]
READ, NOT_READ = (3, 4), (2,)
OLD_SYMCACHES = range(1, SYMCACHE_VERSION)
BODY = "0x87e"


def version_of_symcache(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[8:12], "little")


def names_of_stacks(image: Path, work: Path) -> list[list[str | None]]:
    stacks = work / "stacks.txt"
    stacks.write_text("".join(f"{each['stack']}\n" for each in RECORDED))
    answers = icf("resolve", "--cache-dir", work / "cache", "-e", image, "--out", "json", stacks)
    return [[frame["linkage_name"] for frame in json.loads(line)["frames"]] for line in answers.splitlines()]


def test_every_older_version_has_its_file() -> None:
    assert {*READ, *NOT_READ} == set(range(2, TABLES_VERSION))  # version 1 was never in a linked image
    expected = {f"icf-{version}" for version in range(2, TABLES_VERSION)}
    expected |= {f"symcache-{version}" for version in OLD_SYMCACHES}
    assert {path.name for path in COMPAT.iterdir()} == {*expected, "snapshot.json", "build"}


@pytest.mark.parametrize("version", READ)
def test_older_tables_name_every_frame(version: int, tmp_path: Path) -> None:
    image = COMPAT / f"icf-{version}"
    assert names_of_stacks(image, tmp_path) == [each["truth"] for each in RECORDED]
    assert "8 call sites, 1 tail calls, 0 virtual calls, 0 vtables: all agree" in icf("verify", image)


@pytest.mark.parametrize("version", READ)
def test_the_pass_writes_older_tables_anew(version: int, tmp_path: Path) -> None:
    icf("pass", "-q", COMPAT / f"icf-{version}", "-o", tmp_path / "anew")
    icf("pass", "-q", SHOP / "shop.gold", "-o", tmp_path / "first")
    anew, first = (icf("dump", "--dcall", tmp_path / name).splitlines() for name in ("anew", "first"))
    assert anew[1:] == first[1:]  # the first line has the path
    assert names_of_stacks(tmp_path / "anew", tmp_path) == [each["truth"] for each in RECORDED]


@pytest.mark.parametrize("verb", ["dump", "verify", "pass"])
@pytest.mark.parametrize("version", NOT_READ)
def test_tables_that_are_too_old_say_what_to_do(
    version: int, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = Path(shutil.copy(COMPAT / f"icf-{version}", tmp_path))
    icf(verb, image, status=1)
    assert capsys.readouterr().err.splitlines() == [
        f"icf: error: {image}: .debug_icf+0x4: table has version {version}, only 3 to {TABLES_VERSION} are known",
        "hint: link the program again, then run 'icf pass'",
    ]


@pytest.mark.parametrize("version", OLD_SYMCACHES)
def test_an_older_symcache_is_built_again(version: int, tmp_path: Path) -> None:
    question = ("symbolize", "--cache-dir", tmp_path, "-e", SHOP / "shop.gold", "-p", BODY)
    answer = icf(*question)
    assert answer.startswith("List<Order>::grow() | List<Payment>::grow() | List<Session>::grow()")
    (kept,) = tmp_path.glob("*.symcache")
    today = kept.read_bytes()
    old = COMPAT / f"symcache-{version}"
    assert version_of_symcache(old) == version and version_of_symcache(kept) == SYMCACHE_VERSION
    kept.write_bytes(old.read_bytes())
    assert icf(*question) == answer
    assert kept.read_bytes() == today


@pytest.mark.parametrize("version", OLD_SYMCACHES)
def test_an_older_symcache_is_not_imported(version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = COMPAT / f"symcache-{version}"
    icf("cache", "--cache-dir", tmp_path, "import", old, status=1)
    assert capsys.readouterr().err.splitlines() == [
        f"icf: error: {old}: head+0x8: version is {version}, only {SYMCACHE_VERSION} is known",
        "hint: 'icf cache build IMAGE' builds it again",
    ]
    assert list(tmp_path.glob("*.symcache")) == []


def test_the_first_snapshots_still_find_their_files(tmp_path: Path) -> None:
    listed = json.loads((COMPAT / "snapshot.json").read_text())
    assert [each["path"] for each in listed] == ["shop.gold"]
    (tmp_path / "images").mkdir()
    shutil.copy(SHOP / "shop.gold", tmp_path / "images")
    words = ("fetch", COMPAT / "snapshot.json", "--module-root", tmp_path / "images")
    found = icf("cache", "--cache-dir", tmp_path / "cache", *words)
    assert str(tmp_path / "images" / "shop.gold") in found
