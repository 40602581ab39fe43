"""The store: what a persistent cache of symbols must do, a test for each property."""

from __future__ import annotations

import importlib
import itertools
import os
import pty
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.errors import IcfError
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool
from tests.unwind.symcache.support import OTHER, SHOP, aged, facts, inodes, kept, many_functions
from unwind.symcache.format.container import Container, pack
from unwind.symcache.format.identity import recognize
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.lazy import LazySymCache
from unwind.symcache.store.store import open_by_build_id, open_or_build


def test_the_first_use_makes_it_and_the_next_ones_open_it(image: Path, folder: Path) -> None:
    first = open_or_build(image, cache_dir=folder)
    assert first.is_complete and first.addresses("main") and first.addresses("nobody") == []
    before = inodes(folder)
    assert facts(open_or_build(image, cache_dir=folder)) == facts(first) and inodes(folder) == before
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []  # no lock, no temporary file


def test_a_warm_open_reads_neither_image_nor_numpy(image: Path, folder: Path) -> None:
    open_or_build(image, cache_dir=folder)
    script = (
        "import sys; from unwind.symcache.store.store import open_or_build;"
        f"cache = open_or_build({str(image)!r}, cache_dir={str(folder)!r});"
        "print(cache.addresses('main')[0], *{'numpy', 'icf.elf.image', 'hashlib', 'ctypes'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == [str(open_or_build(image, cache_dir=folder).addresses("main")[0])]


@pytest.mark.parametrize("changes", [1, 2])
@pytest.mark.parametrize("step", ["unwind.symcache.store.folder.recognize", "unwind.symcache.store.making.make_of"])
def test_a_file_that_gets_another_name_while_it_is_read(
    changes: int, step: str, image: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As perf does, which links each file into a cache of its own. One that changes again is refused."""
    module, name = step.rsplit(".", 1)
    real, names = getattr(importlib.import_module(module), name), iter(range(changes))

    def linked(*arguments: object) -> object:
        found = real(*arguments)
        for at in itertools.islice(names, 1):
            os.link(image, tmp_path / f"other{at}")
        return found

    monkeypatch.setattr(step, linked)
    if changes == 1:
        assert open_or_build(image, cache_dir=folder).addresses("main")
    else:
        with pytest.raises(IcfError, match="changed while it was read"):
            open_or_build(image, cache_dir=folder)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_name_gives_all_its_addresses(lazy: bool, tmp_path: Path, folder: Path) -> None:
    for at in range(3):
        body = f"__attribute__((noinline)) static int twin(int x) {{ return x * {at + 7}; }}\n"
        (tmp_path / f"f{at}.c").write_text(f"{body}int f{at}(int x) {{ return twin(x); }}\n")
    (tmp_path / "main.c").write_text(
        "int f0(int), f1(int), f2(int); int main(void) { return f0(1) + f1(2) + f2(3); }\n"
    )
    run(tool("gcc"), "-O1", "main.c", "f0.c", "f1.c", "f2.c", "-o", "twins", folder=tmp_path)
    symbols = run(tool("nm"), tmp_path / "twins").stdout
    twins = sorted(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" twin"))
    assert len(twins) == 3
    for _ in range(2):  # the second time from the file
        cache = open_or_build(tmp_path / "twins", cache_dir=folder, lazy=lazy)
        assert cache.addresses("twin") == twins and cache.addresses("twi") == cache.addresses("twin2") == []
        if isinstance(cache, LazySymCache):
            cache.close()


def test_the_folder_is_the_named_one_then_that_of_the_environment(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("ICF_CACHE_DIR", raising=False)
    open_or_build(image)
    assert len(kept(tmp_path / "home/.cache/icf")) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    open_or_build(image)
    assert len(kept(tmp_path / "xdg/icf")) == 1
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "own"))
    open_or_build(image)
    assert len(kept(tmp_path / "own")) == 1
    open_or_build(image, cache_dir=tmp_path / "named")
    assert len(kept(tmp_path / "named")) == 1
    assert (tmp_path / "named").stat().st_mode & 0o777 == 0o700 and kept(tmp_path / "named")[
        0
    ].stat().st_mode & 0o77 == 0


def test_a_terminal_is_told_what_takes_so_long(image: Path, folder: Path) -> None:
    script = (
        "import sys, icf.log, unwind.symcache.store.making as m; m._MOMENT_BYTES = 0\n"
        "from unwind.symcache.store.store import open_or_build\n"
        "icf.log.show_lines()\n"
        "for _ in range(2):\n    open_or_build(sys.argv[1], cache_dir=sys.argv[2])"
    )
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", script, image, folder], stderr=theirs, cwd=ROOT, check=True)
    assert os.read(ours, 1000) == b"icf: reading shop, once\r\n"
    os.close(ours)
    os.close(theirs)


def test_holes_do_not_change_what_an_image_is_recognized_by(image: Path, tmp_path: Path) -> None:
    size_bytes, dense = 40_000_000, tmp_path / "dense"
    dense.write_bytes(image.read_bytes().ljust(size_bytes, b"\0"))
    os.truncate(image, size_bytes)
    assert image.stat().st_blocks < dense.stat().st_blocks
    with Image.open(image) as sparse, Image.open(dense) as other:
        assert recognize(sparse) == recognize(other)


# Changed, damaged, stale


@pytest.mark.parametrize("how", ["a-byte-in-place", "stripped", "same-times", "another-file"])
def test_a_changed_module_invalidates(how: str, image: Path, folder: Path) -> None:
    old = facts(open_or_build(image, cache_dir=folder))
    content = bytearray(image.read_bytes())
    if how == "stripped":
        run(tool("strip"), "-g", image)
    elif how == "another-file":
        shutil.copy(OTHER, image)
    else:
        with Image.open(image) as opened:
            section = opened.named(".strtab")
            assert section is not None
            at = content.index(b"\0main\0", section.offset) + 1
        content[at : at + 4] = b"niam"  # a name of the same length: no header and no build id tells of it
        image.write_bytes(content)
        if how == "same-times":
            aged(image)
    new = open_or_build(image, cache_dir=folder)
    assert len(kept(folder)) == 2
    if how in ("a-byte-in-place", "same-times"):
        assert new.addresses("niam") and new.identity == SymCache.open(kept(folder)[0]).identity
    else:
        assert facts(new) != old


@pytest.mark.parametrize("size_bytes", [0, 200, 20_000])
def test_a_kept_file_that_is_cut_short_while_it_is_asked(size_bytes: int, image: Path, folder: Path) -> None:
    expected = facts(open_or_build(image, cache_dir=folder))
    cache = open_or_build(image, cache_dir=folder)
    (path,) = kept(folder)
    os.truncate(path, size_bytes)
    assert facts(cache) == expected and cache.addresses("main")


def partial_of(content: bytes) -> Iterator[bytes | memoryview]:
    """The same file, said to know only a part."""
    whole = Container(memoryview(content), "whole")
    return pack(whole.head._replace(flags=0), {name: whole.section(name) for name in whole.names}, whole.origin)


@pytest.mark.parametrize(
    "change", ["empty", "short", "half", "version", "magic", "zeros", "partial", "folder", "nothing"]
)
def test_a_file_that_is_not_whole_is_replaced(change: str, image: Path, folder: Path) -> None:
    good = facts(open_or_build(image, cache_dir=folder))
    (path,) = kept(folder)
    content = path.read_bytes()
    if change == "folder":
        path.unlink()
        path.mkdir()
        assert facts(open_or_build(image, cache_dir=folder)) == good
        return
    damaged = {
        "empty": b"",
        "short": content[:100],
        "half": content[: len(content) // 2],
        "version": content[:8] + b"\2" + content[9:],
        "magic": b"X" + content[1:],
        "zeros": bytes(len(content)),
        "partial": b"".join(partial_of(content)),
    }
    path.write_bytes(damaged.get(change, content))
    assert facts(open_or_build(image, cache_dir=folder)) == good
    assert path.read_bytes() == content


def test_a_file_of_another_image_under_this_name_is_replaced(image: Path, folder: Path, tmp_path: Path) -> None:
    open_or_build(image, cache_dir=folder)
    (path,) = kept(folder)
    content = path.read_bytes()
    open_or_build(OTHER, cache_dir=tmp_path / "other")
    shutil.copy(kept(tmp_path / "other")[0], path)
    open_or_build(image, cache_dir=folder)
    assert path.read_bytes() == content


def test_a_flipped_bit_is_replaced(image: Path, folder: Path) -> None:
    expected = facts(open_or_build(image, cache_dir=folder))
    (path,) = kept(folder)
    content, chance = path.read_bytes(), random.Random(1)
    for _ in range(20):
        changed = bytearray(content)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        assert facts(open_or_build(image, cache_dir=folder)) == expected
        assert path.read_bytes() == content


def test_damage_in_the_middle_of_queries(tmp_path: Path, folder: Path) -> None:
    """A block is checked when it is read. The file is made anew then, and queries go on."""
    image = aged(many_functions(tmp_path))
    good = open_or_build(image, cache_dir=folder)
    (path,) = kept(folder)
    content = path.read_bytes()
    names = [f"a_function_with_number_{i}" for i in range(0, 2000, 50)]
    starts = [good.addresses(name)[0] for name in names]
    truth = [(good.find(start), good.frames(start + 1)) for start in starts]
    late = 0
    for at in range(len(content) // 2, len(content), len(content) // 6):
        path.unlink()
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        cache = open_or_build(image, cache_dir=folder)
        late += path.read_bytes() != content  # not noticed when it was opened
        assert [(cache.find(start), cache.frames(start + 1)) for start in starts] == truth
        assert [cache.addresses(name) for name in names] == [[start] for start in starts]
    assert late > 0


def test_damage_without_the_image_is_an_error_and_the_file_goes(image: Path, folder: Path) -> None:
    build_id = open_or_build(image, cache_dir=folder).identity.value
    (path,) = kept(folder)
    image.unlink()
    content = path.read_bytes()
    path.write_bytes(content[:-100] + bytes(100))
    with pytest.raises(IcfError):
        cache = open_by_build_id(build_id, cache_dir=folder)
        cache.addresses("main")  # reads most of it
        Container.open(path).check_all()
    path.write_bytes(content[:500] + bytes(len(content) - 500))
    with pytest.raises(IcfError, match="no symcache of build id"):
        open_by_build_id(build_id, cache_dir=folder)
    assert kept(folder) == []
    with pytest.raises(IcfError, match="No such file or directory"):
        open_or_build(image, cache_dir=folder)


def test_a_file_of_another_version_of_the_program_is_replaced(
    image: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("unwind.symcache.format.sources.__version__", "0.0.9")
        open_or_build(image, cache_dir=folder)
    before = inodes(folder)
    open_or_build(image, cache_dir=folder)
    assert inodes(folder) != before


# Names


def test_side_by_side_modules_of_one_name(tmp_path: Path, folder: Path) -> None:
    paths = []
    for name, source in (("a", SHOP), ("b", OTHER)):
        (tmp_path / name).mkdir()
        paths.append(Path(shutil.copy(source, tmp_path / name / "libshop.so")))
    first, second = (open_or_build(path, cache_dir=folder) for path in paths)
    assert first.identity != second.identity and len(kept(folder)) == 2
    for path, cache in zip(paths, (first, second), strict=True):
        assert facts(open_or_build(path, cache_dir=folder)) == facts(cache)


def test_one_module_of_two_names_is_kept_once(image: Path, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(image, tmp_path / "copy"))
    assert facts(open_or_build(image, cache_dir=folder)) == facts(open_or_build(copy, cache_dir=folder))
    assert len(kept(folder)) == 1


def test_a_module_without_a_build_id(image: Path, folder: Path) -> None:
    run(tool("objcopy"), "--remove-section=.note.gnu.build-id", image)
    aged(image)
    cache = open_or_build(image, cache_dir=folder)
    assert str(cache.identity).startswith("content-") and cache.addresses("main")
    before = inodes(folder)
    assert facts(open_or_build(image, cache_dir=folder)) == facts(cache) and inodes(folder) == before


def test_a_module_without_a_name(image: Path, folder: Path) -> None:
    expected = facts(open_or_build(image, cache_dir=folder))
    fd = os.memfd_create("")
    os.write(fd, image.read_bytes())
    with open(image, "rb") as file:
        image.unlink()
        for path in (f"/proc/self/fd/{fd}", f"/proc/self/fd/{file.fileno()}"):
            assert facts(open_or_build(path, cache_dir=folder)) == expected
    assert len(kept(folder)) == 1
    os.close(fd)


def test_by_build_id_when_the_image_is_gone(image: Path, folder: Path) -> None:
    expected = open_or_build(image, cache_dir=folder)
    image.unlink()
    build_id = expected.identity.value
    assert facts(open_by_build_id(build_id, cache_dir=folder)) == facts(expected)
    assert facts(open_by_build_id(build_id.hex().upper(), cache_dir=folder)) == facts(expected)
    with pytest.raises(IcfError, match="no symcache of build id 00ff"):
        open_by_build_id(b"\0\xff", cache_dir=folder)


def test_what_is_no_image(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "text").write_text("text")
    for path, problem in ((tmp_path / "text", "not an ELF file"), (tmp_path, "is not a regular file"), ("\0", "null")):
        with pytest.raises(IcfError, match=problem):
            open_or_build(path, cache_dir=folder)
    assert kept(folder) == []
