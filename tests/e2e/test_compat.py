"""Files that older versions wrote: those that are read have the answers of today, the others say what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from icf.pe.sidetable import SideTable
from icf.tables.annotation import VERSION as ANNOTATION_VERSION
from icf.tables.icftable import VERSION as TABLES_VERSION
from linkpass.link.kept_link import KeptLink
from linkpass.link.kept_objects import Kept
from tests.e2e.program import icf
from tests.support.paths import ROOT
from unwind.symcache.format.container import VERSION as SYMCACHE_VERSION

COMPAT, SHOP, PE = (ROOT / "testdata" / name for name in ("compat", "shop", "pe"))
RECORDED = [json.loads(line) for line in (SHOP / "shop.gold.json").read_text().splitlines()]
READ, NOT_READ = (3, 4, 5), (2,)
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
    expected |= {f"annotated-{version}" for version in range(1, ANNOTATION_VERSION + 1)}
    expected |= {"snapshot.json", "side-table-1", "side-table-2", "link-1", "objects-1", "build"}
    assert {path.name for path in COMPAT.iterdir()} == expected


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


def test_the_first_annotations_name_every_frame(tmp_path: Path) -> None:
    image = COMPAT / "annotated-1"
    assert names_of_stacks(image, tmp_path) != [each["truth"] for each in RECORDED]
    icf("pass", "-q", image, "-o", tmp_path / "passed")
    assert names_of_stacks(tmp_path / "passed", tmp_path) == [each["truth"] for each in RECORDED]


@pytest.mark.parametrize("version", [1, 2])
def test_side_tables_of_all_versions_are_read(version: int, tmp_path: Path) -> None:
    for name in ("shop.exe", "shop.pdb", "shop.obj"):
        shutil.copy(PE / name, tmp_path)
    image, table = tmp_path / "shop.exe", tmp_path / "shop.icf"
    without = icf("dump", "--dcall", image)
    shutil.copy(COMPAT / f"side-table-{version}", table)
    old = SideTable.parse(memoryview(table.read_bytes()), str(table))
    shown, slots = icf("dump", "--dcall", image), icf("dump", "--vtables", image)
    icf("pass", "-q", image, "--objects", tmp_path / "shop.obj")
    today = SideTable.parse(memoryview(table.read_bytes()), str(table))
    assert icf("dump", "--dcall", image) == shown != without
    assert (old.key, old.dcall) == (today.key, today.dcall)
    assert old.has_pointers == ("slot 0     Book::price(int)" in slots) == (old == today) == (version == 2)


def test_side_tables_of_later_versions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("shop.exe", "shop.pdb"):
        shutil.copy(PE / name, tmp_path)
    content = (COMPAT / "side-table-2").read_bytes()
    (tmp_path / "shop.icf").write_bytes(content[:7] + b"\3" + content[8:])
    icf("dump", tmp_path / "shop.exe", status=1)
    assert "shop.icf: side table+0x0: magic is b'icf-pe\\x00\\x03', must be" in capsys.readouterr().err


def test_the_first_kept_links_are_read_whole_or_not_at_all() -> None:
    data = (COMPAT / "link-1").read_bytes()
    kept = KeptLink.parse(data)
    assert kept.to_bytes() == data
    assert "./main.o" in kept.files and kept.lines[0] == "shop: 8 functions share 3 of 14 bodies"
    for size_bytes in range(len(data)):
        with pytest.raises(ValueError, match="is not what was kept, or is damaged"):
            KeptLink.parse(data[:size_bytes])


def test_the_first_kept_objects_are_read() -> None:
    kept = Kept.parse((COMPAT / "objects-1").read_bytes())
    counts = {entry.path: len(kept.index_of(entry, 0).functions.symbol) for entry in kept.entries}
    assert {path: count for path, count in counts.items() if path.startswith("./")} == {
        "./main.o": 1, "./orders.o": 4, "./payments.o": 4, "./sampler.o": 2, "./sessions.o": 3
    }  # fmt: skip
