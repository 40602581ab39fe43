"""What the tests of the store share."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.toolchain import run, tool
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.ownership import COMPLETE

SHOP, OTHER = (ROOT / "testdata/shop" / name for name in ("shop.gold", "shop.lld"))


def aged(path: Path) -> Path:
    os.utime(path, (1e9, 1e9))
    time.sleep(0.06)  # the time of the last change of the inode cannot be set
    return path


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{COMPLETE}"))


def inodes(folder: Path) -> list[int]:
    return [path.stat().st_ino for path in kept(folder)]


def facts(cache: SymCache) -> object:
    """All that tells whether a symcache is that of the program."""
    start = cache.addresses("main")
    return start, cache.find(start[0]), cache.frames(start[0] + 8), cache.addresses("nobody")


def many_functions(folder: Path) -> Path:
    """A program of 2,000 functions `a_function_with_number_I`: its symcache has many blocks."""
    functions = (f"int a_function_with_number_{i}(int x) {{\n  return x * {i};\n}}\n" for i in range(2000))
    (folder / "many.c").write_text("".join(functions) + "int main(void) { return 0; }\n")
    run(tool("gcc"), "-g", "-O1", "many.c", "-o", "many", folder=folder)
    return folder / "many"
