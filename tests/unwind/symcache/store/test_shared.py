"""Folders of symcaches that others fill: only read, and only for images with the same bytes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from icf.cli import main
from tests.unwind.symcache.support import kept
from unwind import open_or_build, open_resolver
from unwind.symcache.store import making


@pytest.fixture
def shared(image: Path, tmp_path: Path) -> Path:
    """A folder with the symcache of the image, made on another machine: elsewhere, at another time."""
    there = tmp_path / "there"
    there.mkdir()
    other = Path(shutil.copy(image, there / "shop"))
    os.utime(other, (1, 1))
    open_or_build(other, cache_dir=tmp_path / "shared")
    shutil.rmtree(there)
    return tmp_path / "shared"


def no_building(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("built")

    monkeypatch.setattr(making, "make", refuse)


def listing(folder: Path) -> list[tuple[str, int, int]]:
    found = [(path, path.lstat()) for path in sorted(folder.rglob("*"))]
    return [(str(path), status.st_mtime_ns, status.st_size) for path, status in found]


def test_what_others_have_made_is_used_and_left_alone(
    image: Path, shared: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_building(monkeypatch)
    before = listing(shared)
    cache = open_or_build(image, cache_dir=folder, shared_caches=[str(shared)])
    assert cache.path.startswith(str(shared)) and cache.addresses("main")
    assert listing(shared) == before
    assert kept(folder) == []


def test_the_own_folder_comes_first(image: Path, shared: Path, folder: Path) -> None:
    own = open_or_build(image, cache_dir=folder)
    assert open_or_build(image, cache_dir=folder, shared_caches=[str(shared)]).path == own.path


def test_other_bytes_are_another_image(image: Path, shared: Path, folder: Path) -> None:
    """The same build id, as of a file that was stripped or patched later."""
    changed = bytearray(image.read_bytes())
    changed[-1] ^= 1
    image.write_bytes(changed)
    assert open_or_build(image, cache_dir=folder, shared_caches=[str(shared)]).path.startswith(str(folder))
    (theirs,) = kept(shared)
    (ours,) = kept(folder)
    shutil.copy(theirs, shared / ours.name)  # under the name of the other image
    shutil.rmtree(folder)
    assert open_or_build(image, cache_dir=folder, shared_caches=[str(shared)]).path.startswith(str(folder))


@pytest.mark.parametrize("damage", ["truncated", "version", "fifo", "gone"])
def test_what_is_damaged_is_made_anew_in_the_own_folder(
    image: Path, shared: Path, folder: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (theirs,) = kept(shared)
    if damage == "truncated":
        theirs.write_bytes(theirs.read_bytes()[:1000])
    elif damage == "version":
        content = bytearray(theirs.read_bytes())
        content[4] ^= 0x55
        theirs.write_bytes(content)
    else:
        theirs.unlink()
        if damage == "fifo":
            os.mkfifo(theirs)
        else:
            shutil.rmtree(shared)
    before = listing(shared)
    cache = open_or_build(image, cache_dir=folder, shared_caches=[str(shared)])
    assert cache.path.startswith(str(folder)) and cache.addresses("main")
    assert listing(shared) == before
    assert capsys.readouterr().err.count("\n") == 1


def test_a_debug_file_that_they_did_not_have_counts(image: Path, shared: Path, folder: Path, tmp_path: Path) -> None:
    debug = Path(shutil.copy(image, tmp_path / "shop.debug"))
    with open(debug, "ab") as file:
        file.write(b"more")
    cache = open_or_build(image, cache_dir=folder, shared_caches=[str(shared)], debug_file=str(debug))
    assert cache.path.startswith(str(folder))


def test_every_verb_has_the_option(
    image: Path, shared: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_building(monkeypatch)
    options = ["--cache-dir", str(folder), "--shared-cache", str(shared)]
    (start,) = open_or_build(image, cache_dir=folder, shared_caches=[str(shared)]).addresses("main")
    stacks = image.with_name("stacks")
    stacks.write_text(f"{start:#x}\n")
    assert main(["symbolize", *options, "-e", str(image), hex(start)]) == 0
    assert main(["resolve", *options, "-e", str(image), str(stacks)]) == 0
    assert main(["disasm", *options, "-l", "-e", str(image), "main"]) == 0
    assert capsys.readouterr().out.count("main") >= 3
    resolver = open_resolver(str(image), cache_dir=str(folder), shared_caches=[str(shared)])
    assert resolver.resolve((start,))[0].linkage_names == ("main",)  # it has no tables
    assert kept(folder) == []
