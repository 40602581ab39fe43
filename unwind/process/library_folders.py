"""The directories in which the dynamic linker of this machine looks for a library of which it knows only the name."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from functools import cache

_CONFIGURATION = "/etc/ld.so.conf"
_ALWAYS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_DEPTH_LIMIT = 8


@cache
def library_folders() -> tuple[str, ...]:
    """Return the directories, each once: those of ld.so.conf(5), then those that are always searched."""
    return tuple(dict.fromkeys((*_listed(_CONFIGURATION, _DEPTH_LIMIT), *_ALWAYS)))


def _listed(path: str, depth: int) -> Iterator[str]:
    """Yield the directories that a file names, and the files that it includes."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(1 << 20).splitlines()
    except OSError:
        return
    for line in lines:
        words = line.partition("#")[0].split()
        if words[:1] == ["include"] and depth:
            for pattern in words[1:]:
                for included in sorted(glob.glob(os.path.join(os.path.dirname(path), pattern))):
                    yield from _listed(included, depth - 1)
        elif words and words[0].startswith("/"):
            yield words[0]
