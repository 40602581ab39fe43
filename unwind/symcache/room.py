"""What is in the folder of symcaches, and what goes when that is too much.

When the files together have more than `limit_bytes` of the folder, those that were not used for the longest time go.
Whoever has one open keeps it.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import NamedTuple

from unwind.symcache.folder import COMPLETE, PARTIAL, STAMPS, Folder

_LEFTOVER_S = 3600.0


class Entry(NamedTuple):
    """A file of the folder."""

    name: str  # with what tells its kind
    path: str
    size_bytes: int
    used_s: float  # since 1970


def entries_of(folder: Folder) -> list[Entry]:
    """All entries, by name."""
    found = []
    with suppress(OSError), os.scandir(folder.path) as listed:
        for each in listed:
            if each.name.startswith(".") or not each.name.endswith((COMPLETE, PARTIAL)):
                continue
            with suppress(OSError):
                status = each.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append(Entry(each.name, each.path, status.st_size, status.st_mtime))
    return sorted(found)


def shrink(folder: Folder, keep: str = "", limit_bytes: int | None = None) -> list[Entry]:
    """Take away what was not used for the longest time until the bound holds; gives what went."""
    limit = folder.limit_bytes if limit_bytes is None else limit_bytes
    found = entries_of(folder)
    excess_bytes = sum(each.size_bytes for each in found) - limit
    gone = []
    for each in sorted(found, key=lambda each: each.used_s):
        if excess_bytes <= 0:
            break
        if each.name != keep:
            folder.remove(each.name)
            gone.append(each)
            excess_bytes -= each.size_bytes
    tidy(folder)
    return gone


def tidy(folder: Folder) -> None:
    """Take away links that lead to nothing, and what a builder has left behind when it was killed."""
    stems = {os.path.splitext(each.name)[0] for each in entries_of(folder)}
    with suppress(OSError), os.scandir(os.path.join(folder.path, STAMPS)) as listed:
        for each in listed:
            with suppress(OSError):
                if os.readlink(each.path) not in stems:
                    os.unlink(each.path)
    with suppress(OSError), os.scandir(folder.path) as listed:
        for each in listed:
            with suppress(OSError):
                is_ours = each.name.startswith((".build-id-", ".content-", ".pe-"))
                if is_ours and time.time() - each.stat(follow_symlinks=False).st_mtime > _LEFTOVER_S:
                    os.unlink(each.path)
