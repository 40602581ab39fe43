"""Links through `icf link`: a program to link, and what its tables then say."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.support.icf_command import icf_command
from tests.support.toolchain import find, run, tool

SOURCES = {
    "fruit.cpp": """
        int total;
        __attribute__((noinline)) void apples(int *a) { *a += 1; }
        __attribute__((noinline)) void pears(int *a) { *a += 1; }
        void basket();
        int main() { apples(&total); pears(&total); basket(); return total != 6; }
    """,
    "basket.cpp": """
        extern int total;
        static __attribute__((noinline)) void plums(int *a) { *a += 2; }
        static __attribute__((noinline)) void figs(int *a) { *a += 2; }
        __attribute__((noinline)) void basket() { plums(&total); figs(&total); }
        void unused() {}
    """,
}


CLASSES = [{"_Z5pearsPi", "_Z6applesPi"}, {"_ZL4figsPi", "_ZL5plumsPi"}]


Link = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the objects, an archive and a thin one of basket.o, and linkers where compilers look for them."""
    folder = tmp_path_factory.mktemp("compiled")
    for name, source in SOURCES.items():
        (folder / name).write_text(source)
        run(tool("clang++"), "-O2", "-g", "-ffunction-sections", "-c", name, folder=folder)
    run(tool("ar"), "rc", "libbasket.a", "basket.o", folder=folder)
    run(tool("ar"), "rcT", "libthin.a", "basket.o", folder=folder)
    for name in ("ld.lld", "ld.gold", "ld.mold"):
        if path := find(name):
            (folder / name).symlink_to(path)
    return folder


@pytest.fixture
def link(compiled: Path, tmp_path: Path) -> Link:
    """Run a link in a folder with those files: `link("-Wl,--icf=all", "fruit.o")`; with the pass unless `plain`."""
    shutil.copytree(compiled, tmp_path, symlinks=True, dirs_exist_ok=True)

    def run(
        *words: str, driver: str = "clang++", plain: bool = False, options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        command = [tool("clang++", driver), "-fuse-ld=lld", "-B."] if driver == "clang++" else [driver]
        before = [] if plain else [*icf_command(), "link", *options, "--"]
        return subprocess.run([*before, *command, *words], cwd=tmp_path, capture_output=True, text=True)

    return run


def classes(path: Path) -> list[set[str]]:
    """The linkage names of each class of the program, by `icf dump`."""
    folds = [fold["members"] for fold in json.loads(icf("dump", "--json", path))["classes"] if len(fold["members"]) > 1]
    return sorted(({member["linkage_name"] for member in members} for members in folds), key=sorted)
