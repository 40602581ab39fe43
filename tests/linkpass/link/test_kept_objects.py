"""What is kept of objects: they have the columns of objects that are read, and only of files that have not changed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from icf.elf.archive import map_file
from icf.linkinputs.inputs import open_inputs
from linkpass.link.kept_links import KeptLinks
from linkpass.link.kept_objects import KeptObjects
from linkpass.link.run import RunningLink
from linkpass.objects import functions
from linkpass.objects.addresses import read_addresses
from linkpass.objects.functions import LinkObjects
from tests.support.toolchain import run, tool

SETTLE_S = 0.1  # after which the stamp of a file counts
SOURCES = {
    "a": "int shared; void pick(); static void own() { shared++; } void (*kept)() = own; int main() { pick(); }",
    "b": "extern int shared; struct B { virtual void f() { shared--; } } b; void pick() { b.f(); }",
    "c": "void other() {} void (*taken)() = other;",
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects")
    for name, source in SOURCES.items():
        (folder / f"{name}.cpp").write_text(source)
        run(tool("clang++"), "-O1", "-ffunction-sections", "-c", f"{name}.cpp", folder=folder)
    for flags, name in (("qc", "both.a"), ("qcT", "thin.a")):
        run(tool("ar"), flags, name, "c.o", "b.o", "c.o", folder=folder)
    time.sleep(SETTLE_S)
    return folder


Read = Callable[..., list[str]]


@pytest.fixture
def read(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Read objects as a link of them does, compare them with those of a first link; return the names of those read."""
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    time.sleep(SETTLE_S)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))

    def read(*names: str, start_ns: int = 0) -> list[str]:
        paths = {name.partition("(")[0] for name in names}
        files = {path: map_file(path) for path in paths}
        link = cast(RunningLink, SimpleNamespace(files=files, start_ns=start_ns or time.time_ns()))
        objects, fresh, were_read = LinkObjects(), LinkObjects(), []

        def note(object_idx: int, object_file: Any) -> Any:
            were_read.append(object_file.name)
            return read_addresses(object_idx, object_file)

        with monkeypatch.context() as patch:
            patch.setattr(functions, "read_addresses", note)
            kept = KeptObjects(KeptLinks(), link, "prog")
            inputs = open_inputs([], opened=files)
            for name in names:
                for object_file in inputs.of(name):
                    kept.add(objects, name, object_file)
            kept.save(objects)
        for object_file in open_inputs(names):
            fresh.add(object_file)
        for own, expected in (
            *zip(objects.functions, fresh.functions, strict=True),
            *zip(objects.addresses, fresh.addresses, strict=True),
        ):
            assert own.dtype == expected.dtype and np.array_equal(own, expected)
        return were_read

    return read


def kept_file(folder: Path) -> Path:
    (path,) = (folder / "cache" / "links").glob("*.objects")
    return path


def test_objects_that_have_not_changed_are_not_read(read: Read) -> None:
    assert read("a.o", "b.o") == ["a.o", "b.o"]
    assert read("a.o", "b.o") == []
    assert read("b.o", "c.o", "a.o") == ["c.o"]
    assert read("c.o") == []
    assert read("c.o", "both.a(b.o)") == ["both.a(b.o)"]
    assert read("both.a(b.o)", "c.o") == []


def test_members_of_one_name(read: Read) -> None:
    assert read("both.a") == ["both.a(c.o)", "both.a(b.o)", "both.a(c.o)"]
    assert read("both.a(c.o)") == []


def test_an_object_that_comes_after_look_ups_were_prepared(compiled: Path) -> None:
    first, second = open_inputs([str(compiled / "a.o"), str(compiled / "b.o")])
    objects = LinkObjects([first])
    objects.prepare()
    objects.add(second)
    objects.prepare()
    together = LinkObjects([first, second])
    for own, expected in (
        *zip(objects.functions, together.functions, strict=True),
        *zip(objects.addresses, together.addresses, strict=True),
    ):
        assert np.array_equal(own, expected)


def test_a_thin_archive_says_nothing_of_its_members(read: Read) -> None:
    assert read("thin.a(b.o)") == read("thin.a(b.o)") == ["thin.a(b.o)"]


def test_an_object_that_was_written_with_the_same_size_and_time(read: Read, tmp_path: Path) -> None:
    read("a.o", "b.o")
    before, content = (tmp_path / "a.o").stat(), (tmp_path / "a.o").read_bytes()
    (tmp_path / "a.o").write_bytes(content.replace(b"_Z4pickv", b"_Z4packv"))
    os.utime(tmp_path / "a.o", ns=(before.st_atime_ns, before.st_mtime_ns))
    after = (tmp_path / "a.o").stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    assert read("a.o", "b.o") == ["a.o"]


def test_an_object_that_may_still_be_written_is_not_kept(read: Read, tmp_path: Path) -> None:
    (tmp_path / "a.o").touch()
    assert read("a.o", "b.o", start_ns=(tmp_path / "a.o").stat().st_ctime_ns) == ["a.o", "b.o"]
    time.sleep(SETTLE_S)
    assert read("a.o", "b.o") == ["a.o"]
    assert read("a.o", "b.o") == []


def test_a_damaged_file_is_made_again(read: Read, tmp_path: Path) -> None:
    read("a.o", "b.o")
    path = kept_file(tmp_path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:60] + bytes([whole[60] ^ 1]) + whole[61:]):
        path.write_bytes(damaged)
        assert read("a.o", "b.o") == ["a.o", "b.o"]
        assert path.read_bytes() == whole
    path.chmod(0o666)  # another user could have written it
    assert read("a.o", "b.o") == ["a.o", "b.o"]
    assert read("a.o", "b.o") == []
