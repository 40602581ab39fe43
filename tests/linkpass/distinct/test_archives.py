"""Copies of archives with other members, read by `ar` and `nm`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from icf.elf.archive import Archive, map_file
from icf.errors import IcfError, UnsupportedError
from linkpass.distinct.archives import copied_archive, copied_thin_archive
from linkpass.distinct.marking import Parts
from tests.support.toolchain import run, tool

NAMES = ("short.o", "a_name_that_is_longer_than_its_field.o", "last.o")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("members")
    for idx, name in enumerate(NAMES):
        (folder / "source.s").write_text(f".globl f{idx}\nf{idx}:\n{'nop;' * (idx + 1)}ret\n")
        run(tool("gcc"), "-c", "source.s", "-o", name, folder=folder)
    run(tool("ar"), "rcs", "lib.a", *NAMES, folder=folder)
    run(tool("ar"), "rcsT", "thin.a", *NAMES, folder=folder)
    return folder


@pytest.mark.parametrize("added_bytes", [1, 2, 1000])
def test_members_change_their_size_and_symbols_are_found(objects: Path, tmp_path: Path, added_bytes: int) -> None:
    buffer = map_file(str(objects / "lib.a"))
    first, second, _ = Archive(buffer, "lib.a")
    contents = {entry.offset: bytes(entry.stored or b"") for entry in (first, second)}
    new: dict[int, Parts] = {at: [content, b"\0" * added_bytes] for at, content in contents.items()}
    copy = tmp_path / "lib.a"
    copy.write_bytes(b"".join(copied_archive(buffer, "lib.a", new)))
    assert run(tool("ar"), "t", copy).stdout.split() == list(NAMES)
    before = run(tool("nm"), "-s", objects / "lib.a").stdout
    assert run(tool("nm"), "-s", copy).stdout == before and "f1 in a_name" in before
    run(tool("ar"), "x", copy, folder=tmp_path)
    assert (tmp_path / NAMES[1]).read_bytes() == (objects / NAMES[1]).read_bytes() + b"\0" * added_bytes
    assert (tmp_path / NAMES[2]).read_bytes() == (objects / NAMES[2]).read_bytes()
    assert b"".join(copied_archive(buffer, "lib.a", {})) == bytes(buffer)


def test_a_thin_archive_has_paths_that_work_from_anywhere(objects: Path, tmp_path: Path) -> None:
    path = str(objects / "thin.a")
    buffer = map_file(path)
    offsets = [entry.offset for entry in Archive(buffer, path)]
    other = tmp_path / "deep" / NAMES[1]
    other.parent.mkdir()
    other.write_bytes((objects / NAMES[1]).read_bytes() + b"\0")
    copy = tmp_path / "thin.a"
    copy.write_bytes(b"".join(copied_thin_archive(buffer, path, {offsets[1]: str(other)})))
    archive = Archive(map_file(str(copy)), str(copy))
    assert [entry.name for entry in archive] == [str(objects / NAMES[0]), str(other), str(objects / NAMES[2])]
    assert [bytes(archive.contents(entry))[-1:] for entry in archive][1] == b"\0"
    symbols = [line for line in run(tool("nm"), "-s", copy).stdout.splitlines() if line.startswith("f")]
    assert [line.split(" in ")[0] for line in symbols] == ["f0", "f1", "f2"]
    assert symbols[1].endswith(NAMES[1])


def test_a_table_of_symbols_as_bsd_writes_it_is_refused() -> None:
    header = b"%-48s%-10d`\n"
    archive = b"!<arch>\n" + header % (b"__.SYMDEF", 4) + bytes(4) + header % (b"a.o/", 2) + b"ab"
    with pytest.raises(UnsupportedError, match=r"lib\.a: has a symbol table as BSD writes it"):
        copied_archive(memoryview(archive), "lib.a", {})


def test_damage_is_an_error_or_changes_nothing_else(objects: Path) -> None:
    whole, rng = (objects / "lib.a").read_bytes(), random.Random(4)
    tables = whole.index(b"`\n", 300)
    for _ in range(600):
        changed = bytearray(whole)
        changed[rng.randrange(8, tables)] = rng.choice(b"\0 /0159\xff")
        try:
            entries = list(Archive(memoryview(changed), "lib.a"))
            copy = copied_archive(memoryview(changed), "lib.a", {entry.offset: [b"new"] for entry in entries})
        except IcfError as error:
            assert "lib.a" in str(error)
            continue
        assert all(bytes(entry.stored or b"") == b"new" for entry in Archive(memoryview(b"".join(copy)), "lib.a"))
