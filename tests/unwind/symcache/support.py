"""What the tests of the store share."""

from __future__ import annotations

import os
import time
from pathlib import Path

from unwind.symcache.folder import COMPLETE
from unwind.symcache.symcache import SymCache

ROOT = Path(__file__).resolve().parents[3]
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
