"""Debug information in other files: a symcache notices when these change or appear."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from icf.errors import IcfError
from tests.support.toolchain import run, tool
from tests.unwind.symcache.support import OTHER, aged, inodes, kept
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.store import open_or_build


@pytest.fixture
def parted(image: Path) -> Path:
    """A stripped program and its debug file, which it has a link to."""
    objcopy, debug = tool("objcopy"), image.with_name("shop.debug")
    for command in (f"--only-keep-debug {image} {debug}", f"-g {image}", f"--add-gnu-debuglink={debug} {image}"):
        run(objcopy, *command.split())
    aged(debug)
    return aged(image)


def has_lines(cache: SymCache) -> bool:
    return bool(cache.frames(cache.addresses("main")[0] + 8)[-1].line)


def test_a_debug_file_that_appears_or_changes_invalidates(parted: Path, folder: Path) -> None:
    debug, elsewhere = parted.with_name("shop.debug"), parted.with_name("elsewhere")
    debug.rename(elsewhere)
    assert not has_lines(open_or_build(parted, cache_dir=folder))
    before = inodes(folder)
    assert not has_lines(open_or_build(parted, cache_dir=folder)) and inodes(folder) == before
    elsewhere.rename(debug)
    assert has_lines(open_or_build(parted, cache_dir=folder))
    before = inodes(folder)
    os.utime(debug, (2e9, 1.5e9))
    assert has_lines(open_or_build(parted, cache_dir=folder)) and inodes(folder) != before
    before = inodes(folder)
    debug.unlink()  # what was read of it is still true
    assert has_lines(open_or_build(parted, cache_dir=folder)) and inodes(folder) == before


def test_a_debug_file_or_folder_that_is_named_now(parted: Path, folder: Path, tmp_path: Path) -> None:
    debug, root = parted.with_name("shop.debug"), tmp_path / "root"
    root.mkdir()
    debug.rename(root / "shop.debug")
    debug = root / "shop.debug"
    assert not has_lines(open_or_build(parted, cache_dir=folder))
    assert has_lines(open_or_build(parted, debug_roots=[str(root)], cache_dir=folder))
    before = inodes(folder)
    for options in ({}, {"debug_roots": [str(root)]}, {"debug_file": str(debug)}):
        assert has_lines(open_or_build(parted, cache_dir=folder, **options))
    assert inodes(folder) == before
    with pytest.raises(IcfError, match="does not belong"):
        open_or_build(parted, debug_file=str(OTHER), cache_dir=folder)


def test_an_image_that_moves_with_its_debug_file(parted: Path, folder: Path, tmp_path: Path) -> None:
    open_or_build(parted, cache_dir=folder)
    before = inodes(folder)
    (tmp_path / "there").mkdir()
    for name in ("shop", "shop.debug"):
        parted.with_name(name).rename(tmp_path / "there" / name)
    assert has_lines(open_or_build(tmp_path / "there" / "shop", cache_dir=folder)) and inodes(folder) == before


def test_split_debug_information(tmp_path: Path, folder: Path) -> None:
    compiler = tool("gcc")
    (tmp_path / "a.c").write_text("int main(int argc, char **argv) { return argc * 7 + (argv == 0); }\n")
    run(compiler, "-g", "-gsplit-dwarf", "-O1", "-c", "a.c", folder=tmp_path)
    run(compiler, "a.o", "-o", "a", folder=tmp_path)
    image, dwo, elsewhere = aged(tmp_path / "a"), tmp_path / "a.dwo", tmp_path / "elsewhere"
    open_or_build(image, cache_dir=folder)
    before = inodes(folder)
    dwo.rename(elsewhere)  # what was read of it is still true
    open_or_build(image, cache_dir=folder)
    assert inodes(folder) == before
    for path in kept(folder):
        path.unlink()
    open_or_build(image, cache_dir=folder)
    before = inodes(folder)
    for change in (lambda: elsewhere.rename(dwo), lambda: os.utime(dwo, (2e9, 1.5e9)), lambda: dwo.write_bytes(b"")):
        change()
        for is_new in (True, False):
            open_or_build(image, cache_dir=folder)
            assert (inodes(folder) != before) == is_new
            before = inodes(folder)
