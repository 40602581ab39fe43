"""`icf link` of a command that it has run before: without a pass if nothing has changed, and never with old tables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.linkers import LINKERS, linker_of
from tests.e2e.links import Link
from tests.e2e.program import icf
from tests.support.toolchain import run, tool

SETTLE_S = 0.1  # after which the stamp of a file counts
MAIN = """
    #include "fruit.h"
    __attribute__((noinline)) void apples(int *a) { *a += 1; }
    __attribute__((noinline)) void pears(int *a) { *a += 1; }
    void basket();
    int total;
    int main() { %s(&total); basket(); return 0; }
"""
RUN = """
import sys
from icf import cli
status = cli.main(sys.argv[1:])
print("passed" if "linkpass.pipeline" in sys.modules else "repeated", file=sys.stderr)
sys.exit(status)
"""


class Done(NamedTuple):
    how: str  # "passed" or "repeated"
    program: bytes
    lines: list[str]


Relink = Callable[..., Done]


@pytest.fixture
def relink(link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Relink:
    """Run `icf link` in a folder with the objects of fruit and basket, with a cache of its own."""
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "cache"))
    time.sleep(SETTLE_S)

    def again(*words: str) -> Done:
        words = words or ("-fuse-ld=lld", "fruit.o", "basket.o")
        command = [tool("clang++"), "-B.", "-Wl,--icf=all", *words, "-o", "prog"]
        done = subprocess.run(
            [sys.executable, "-c", RUN, "link", "--summary", "--", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        *lines, how = done.stderr.splitlines()
        return Done(how, (tmp_path / "prog").read_bytes(), lines)

    return again


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "links").glob("*.link"))


def compile_main(folder: Path, first_called: str, *options: str) -> None:
    (folder / "fruit.h").touch()
    (folder / "main.cpp").write_text(MAIN % first_called)
    run(tool("clang++"), "-O2", "-ffunction-sections", *options, "-c", "main.cpp", "-o", "new.o", folder=folder)


@LINKERS
def test_a_link_with_the_same_result_needs_no_pass(relink: Relink, tmp_path: Path, linker: str) -> None:
    words = (linker_of(linker), "fruit.o", "basket.o")
    first = relink(*words)
    (tmp_path / "prog").unlink()
    second = relink(*words)
    assert (first.how, second.how) == ("passed", "repeated")
    assert (second.program, second.lines) == (first.program, first.lines)
    assert "all agree with the code" in icf("verify", tmp_path / "prog")
    if linker == "lld":
        assert icf("cache", "clear").startswith("2 files, ") and not kept(tmp_path)


@LINKERS
def test_with_one_object_changed_the_tables_are_those_of_a_link_that_knows_nothing(
    relink: Relink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linker: str
) -> None:
    words = (linker_of(linker), "fruit.o", "basket.o")
    before = relink(*words)
    compile_main(tmp_path, "pears", "-g")
    (tmp_path / "fruit.o").write_bytes((tmp_path / "new.o").read_bytes())
    assert len(list((tmp_path / "cache" / "links").glob("*.objects"))) == 1  # with basket.o, which stays
    changed = relink(*words)
    monkeypatch.setenv("ICF_CACHE_DIR", str(tmp_path / "empty"))
    fresh = relink(*words)
    assert (changed.how, fresh.how) == ("passed", "passed")
    assert (changed.program, changed.lines) == (fresh.program, fresh.lines) != (before.program, before.lines)
    assert "all agree with the code" in icf("verify", tmp_path / "prog")


def test_an_object_that_leaves_the_image_the_same(relink: Relink, tmp_path: Path) -> None:
    """The call in main is of the other of two merged functions: same bytes, size and time, another callee."""
    called = {}
    for name in ("apples", "pears"):
        compile_main(tmp_path, name)
        if name == "apples":
            shutil.copy(tmp_path / "new.o", tmp_path / "main.o")
            status = os.stat(tmp_path / "main.o")
            time.sleep(SETTLE_S)
        else:
            (tmp_path / "main.o").write_bytes((tmp_path / "new.o").read_bytes())  # the same inode
            os.utime(tmp_path / "main.o", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert (tmp_path / "main.o").stat().st_size == status.st_size
        words = ("-fuse-ld=lld", "main.o", "basket.o")
        assert [relink(*words).how, relink(*words).how] == ["passed", "repeated"]
        run(tool("clang++"), "-B.", "-Wl,--icf=all", *words, "-o", "plain", folder=tmp_path)
        called[name] = (tmp_path / "plain").read_bytes(), icf("dump", "--dcall", tmp_path / "prog")
    assert called["apples"][0] == called["pears"][0]
    assert called["apples"][1] != called["pears"][1] and "pears" in called["pears"][1]


def test_an_object_that_is_made_again_with_the_same_content(relink: Relink, tmp_path: Path) -> None:
    content = (tmp_path / "fruit.o").read_bytes()
    hows = []
    for _ in range(3):
        hows.append(relink().how)
        (tmp_path / "fruit.o").unlink()
        (tmp_path / "fruit.o").write_bytes(content)
    assert hows[0] == "passed" and hows[2] == "repeated"


def test_a_response_file_that_names_other_inputs(relink: Relink, tmp_path: Path) -> None:
    for words in ("fruit.o basket.o", "basket.o fruit.o"):
        (tmp_path / "all.rsp").write_text(words)
        assert relink("-fuse-ld=lld", "@all.rsp").how == "passed"


def test_another_output_of_the_linker_from_the_same_inputs(relink: Relink, tmp_path: Path) -> None:
    """The linker names no file of an order, and the image changes with it."""
    for name in ("_Z6applesPi", "_Z6basketv"):
        (tmp_path / "order").write_text(f"{name}\n")
        assert relink("-fuse-ld=lld", "-Wl,--symbol-ordering-file=order", "fruit.o", "basket.o").how == "passed"
    assert "all agree with the code" in icf("verify", tmp_path / "prog")


def test_a_damaged_file_is_made_again(relink: Relink, tmp_path: Path) -> None:
    first = relink()
    (path,) = kept(tmp_path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:60] + bytes([whole[60] ^ 1]) + whole[61:]):
        path.write_bytes(damaged)
        done = relink()
        assert (done.how, done.program) == ("passed", first.program)
        assert path.read_bytes() == whole
    path.chmod(0o666)  # another user could have written it
    assert relink().how == "passed"
    assert relink().how == "repeated"


def test_a_link_with_another_object_and_option(relink: Relink, tmp_path: Path) -> None:
    """What is kept of basket.o is used; the tables are those of a link that knows nothing."""
    relink("-fuse-ld=lld", "fruit.o", "basket.o")
    compile_main(tmp_path, "pears")
    words = ("-fuse-ld=lld", "-Wl,--gc-sections", "new.o", "basket.o")
    changed = relink(*words)
    shutil.rmtree(tmp_path / "cache")
    assert (changed.how, relink(*words)) == ("passed", changed)


def test_links_at_the_same_time(link: Link, relink: Relink, tmp_path: Path) -> None:
    expected = relink().program
    for is_cold in (True, False):
        if is_cold:
            shutil.rmtree(tmp_path / "cache")
        command = [sys.executable, "-m", "icf", "link", "--", tool("clang++"), "-B.", "-Wl,--icf=all", "-fuse-ld=lld"]
        links = [subprocess.Popen([*command, "fruit.o", "basket.o", "-o", "prog"], cwd=tmp_path) for _ in range(3)]
        assert [process.wait() for process in links] == [0, 0, 0]
        assert (tmp_path / "prog").read_bytes() == expected
    assert len(kept(tmp_path)) == 1 and relink().how == "repeated"


@pytest.mark.parametrize("what", ["a file", "all may write"])
def test_a_cache_that_cannot_be_used(relink: Relink, tmp_path: Path, what: str) -> None:
    cache = tmp_path / "cache"
    if what == "a file":
        cache.touch()
    else:
        cache.mkdir()
        cache.chmod(0o777)
    assert [relink().how, relink().how] == ["passed", "passed"]
    assert cache.is_file() or not list(cache.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ("fruit.o", "libthin.a"),
        ("-flto", "-O2", "fruit.cpp", "basket.cpp"),
        ("fruit.o", "split.o"),
    ],
    ids=["thin archive", "LTO", ".dwo"],
)
def test_links_that_read_other_files_are_not_kept(relink: Relink, tmp_path: Path, words: tuple[str, ...]) -> None:
    run(
        tool("clang++"),
        "-O2",
        "-g",
        "-gsplit-dwarf",
        "-ffunction-sections",
        "-c",
        "basket.cpp",
        "-o",
        "split.o",
        folder=tmp_path,
    )
    assert [relink("-fuse-ld=lld", *words).how for _ in range(2)] == ["passed", "passed"]
    assert not kept(tmp_path)
