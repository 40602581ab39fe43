"""Images of recorded modules: which file is the right one."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.errors import IcfError
from tests.support.paths import ROOT
from unwind.process.image_finder import ImageFinder, Sought

SHOP = ROOT / "testdata" / "shop" / "shop.lld"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Path(shutil.copy(SHOP, tmp_path / "shop"))


def build_id() -> bytes:
    with Image.open(str(SHOP)) as image:
        return image.build_id


def found(finder: ImageFinder, sought: Sought) -> str:
    """Return the path of what was found, or the problem."""
    image = finder.find(sought)
    return image if isinstance(image, str) else image.path


def mapped_id(path: Path) -> tuple[int, int]:
    """Return the device and inode that the kernel lists for a mapping of a file."""
    import mmap

    with path.open("rb") as file, mmap.mmap(file.fileno(), 1, mmap.MAP_PRIVATE, mmap.PROT_READ):
        (line,) = (each for each in Path("/proc/self/maps").read_text().splitlines() if each.endswith(f" {path}"))
    major, minor = line.split()[3].split(":")
    return os.makedev(int(major, 16), int(minor, 16)), int(line.split()[4])


def test_a_build_id_decides(shop: Path, tmp_path: Path) -> None:
    with ImageFinder() as finder:
        assert found(finder, Sought(str(shop), build_id())) == str(shop)
        padded = build_id()[:8] + bytes(12)
        assert (
            found(finder, Sought(str(shop), padded)) == f"{shop}: has build id {build_id().hex()}, not {padded.hex()}"
        )
        assert found(finder, Sought("/gone/shop", build_id())) == "/gone/shop: no such file"
    kept = tmp_path / "home" / ".debug" / ".build-id" / build_id().hex()[:2] / build_id().hex()[2:]
    kept.mkdir(parents=True)
    shutil.copy(shop, kept / "elf")
    with ImageFinder() as finder:
        assert found(finder, Sought("/gone/shop", build_id())) == str(kept / "elf")


def test_what_the_user_names_comes_first_and_copies_of_perf_last(shop: Path, tmp_path: Path) -> None:
    """The file at the recorded path, and the copy that perf makes of it, are often stripped."""
    kept = tmp_path / "home" / ".debug" / ".build-id" / build_id().hex()[:2] / build_id().hex()[2:]
    kept.mkdir(parents=True)
    shutil.copy(shop, kept / "elf")
    named = tmp_path / "named" / "shop"
    named.parent.mkdir()
    shutil.copy(shop, named)
    for path in (str(shop), "/gone/shop"):
        for module_roots, debug_roots in (([str(named.parent)], ()), ((), [str(named.parent)])):
            with ImageFinder(module_roots, debug_roots) as finder:
                assert found(finder, Sought(path, build_id())) == str(named)
    with ImageFinder([str(named.parent)]) as finder:
        assert found(finder, Sought(str(shop))) == str(shop)  # nothing shows that the other one is of its build


def test_an_image_that_matches_no_module_is_reported(shop: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "icf"), ImageFinder(image=str(shop)) as finder:
        finder.report()
        assert not caplog.messages  # there were no modules
        finder.find(Sought("/gone/libx.so", bytes(20)))
        finder.report()
        finder.report()
    assert caplog.messages == [f"{shop}: matches none of the modules by build id or name: it was not used"]


def test_without_a_build_id_the_inode_decides(shop: Path, tmp_path: Path) -> None:
    identity = mapped_id(shop)
    with ImageFinder() as finder:
        assert found(finder, Sought(str(shop))) == str(shop)
        assert found(finder, Sought(str(shop), b"", identity)) == str(shop)
        other = (identity[0], identity[1] + 1)
        problem = f"{shop}: is another file than the one that was mapped, inode {other[1]}"
        assert found(finder, Sought(str(shop), b"", other)) == problem
    with ImageFinder([str(tmp_path)]) as finder:  # the user's word
        assert found(finder, Sought("/usr/bin/shop", b"", other)) == str(shop)


def test_a_file_of_another_mount_namespace_must_be_proved(shop: Path, tmp_path: Path) -> None:
    root = str(tmp_path)
    with ImageFinder() as finder:
        assert found(finder, Sought("/shop", build_id(), None, root)).startswith("/proc/self/fd/")
        assert found(finder, Sought("/shop", b"", mapped_id(shop), root)).startswith("/proc/self/fd/")
        unproved = "nothing that was recorded shows that it is the same file"
        assert found(finder, Sought("/shop", b"", None, root)) == f"{shop}: {unproved}"
        assert found(finder, Sought(str(shop), b"", None, "/gone")) == f"{shop}: {unproved}"


def test_one_build_is_opened_once_for_all_containers(shop: Path, tmp_path: Path) -> None:
    with ImageFinder() as finder:
        first = finder.find(Sought("/shop", build_id(), None, str(tmp_path)))
        assert finder.find(Sought("/shop", build_id(), None, "/proc/1/root")) is first
        assert isinstance(finder.find(Sought("/shop", b"", mapped_id(shop), "/proc/1/root")), str)


def test_the_image_that_is_named_stands_for_its_build(shop: Path) -> None:
    with ImageFinder(image=str(shop)) as finder:
        assert found(finder, Sought("/build/shop")) == found(finder, Sought("/x", build_id())) == str(shop)
        assert found(finder, Sought("/build/other")) == "/build/other: no such file"
    with ImageFinder(image="/gone") as finder, pytest.raises(IcfError, match="/gone: No such file"):
        finder.find(Sought("/build/shop"))


def test_what_was_not_found_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "icf"), ImageFinder() as finder:
        for address in (1, 2, 1):
            finder.lack("/a: no such file", address)
        finder.lack("/b: no such file", 1)
        finder.end_stacks("/b: no such file")
        finder.end_stacks("/c: no such file")
        finder.report()
        finder.report()
    assert [record.getMessage() for record in caplog.records] == [
        "/a: no such file: 2 distinct frames are unknown",
        "/b: no such file: 1 distinct frame is unknown, copied stacks end there",
        "/c: no such file: copied stacks end there",
    ]


def test_a_library_without_a_directory_is_beside_the_program_or_where_libraries_are(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    library = Path(shutil.copy(SHOP, tmp_path / "lib" / "libshop.so"))
    monkeypatch.setattr("unwind.process.image_finder.library_folders", lambda: (str(tmp_path / "lib"),))
    with ImageFinder() as finder:
        assert found(finder, Sought("libshop.so", build_id())) == str(library)
        assert found(finder, Sought("libshop.so")) == "libshop.so: no such file"  # any build may be there
        assert found(finder, Sought("/opt/libshop.so", build_id())) == "/opt/libshop.so: no such file"
    shutil.copy(SHOP, tmp_path / "libshop.so")
    with ImageFinder() as finder:
        finder.program_folders = (str(tmp_path),)
        assert found(finder, Sought("libshop.so", build_id())) == str(tmp_path / "libshop.so")
