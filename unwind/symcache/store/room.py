"""The files in the directory of symcaches, and which of them are evicted when they are too large.

When the files together have more than `limit_bytes` of the directory, those that were not used for the longest time go.
A process that has one open keeps it.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from icf.cachefolder import LINKS, is_own
from unwind.symcache.format.identity import Recognized
from unwind.symcache.store.folder import Folder, complain
from unwind.symcache.store.ownership import STAMPS, is_entry, is_left, is_stamp

_LEFTOVER_S = 3600.0


class Entry(NamedTuple):
    """A file of the directory."""

    name: str  # with the suffix of its kind
    path: str
    size_bytes: int
    used_s: float  # since 1970


def entries_of(folder: Folder) -> list[Entry]:
    """Return all entries, by name."""
    found = []
    if folder.problem:
        complain(folder, folder.problem)
        return []
    with suppress(OSError), os.scandir(folder.path) as listed:
        for each in listed:
            if not is_entry(each.name):
                continue
            with suppress(OSError):
                status = each.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append(Entry(each.name, each.path, status.st_size, status.st_mtime))
    return sorted(found)


def clear_links(folder: Folder) -> list[Entry]:
    """Remove what `icf link` has kept in the directory; return the files."""
    gone = []
    with suppress(OSError), _opened(folder.path) as top, _opened(LINKS, top) as links:
        for name in sorted(os.listdir(links)):
            with suppress(OSError):
                status = os.stat(name, dir_fd=links, follow_symlinks=False)
                os.unlink(name, dir_fd=links)
                gone.append(Entry(name, folder.path_of(f"{LINKS}/{name}"), status.st_size, status.st_mtime))
    return gone


def keep(folder: Folder, name: str, pieces: Iterable[bytes | memoryview]) -> None:
    """Make or replace an entry, and make room for it.

    Raise OSError if that fails; the older entry is then still there.
    """
    folder.write(name, pieces)
    shrink(folder, keep=name)


def shrink(folder: Folder, keep: str = "", limit_bytes: int | None = None) -> list[Entry]:
    """Evict the entries not used for the longest time until the bound holds; return them."""
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
    """Remove links that lead nowhere, and files of builders that were killed.

    Only names that this program uses are removed, and only in the directory that was checked: no link is followed.
    """
    stems = {os.path.splitext(each.name)[0] for each in entries_of(folder)}
    with suppress(OSError), _opened(folder.path) as top:
        for name in os.listdir(top):
            with suppress(OSError):
                if is_left(name) and _is_old_file(name, top):
                    os.unlink(name, dir_fd=top)
        with _opened(STAMPS, top) as stamps:
            for name in os.listdir(stamps):
                with suppress(OSError):
                    if is_stamp(name) and _leads_to_nothing(os.readlink(name, dir_fd=stamps), stems):
                        os.unlink(name, dir_fd=stamps)


@contextmanager
def _opened(name: str, dir_fd: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a directory that is this user's own. Raise OSError for any other directory."""
    no_link = os.O_NOFOLLOW if dir_fd is not None else 0
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | no_link, dir_fd=dir_fd)
    try:
        if not is_own(os.fstat(fd)):
            raise PermissionError(errno.EPERM, "is not this user's own", name)
        yield fd
    finally:
        os.close(fd)


def _is_old_file(name: str, dir_fd: int) -> bool:
    status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    return stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > _LEFTOVER_S


def _leads_to_nothing(target: str, stems: set[str]) -> bool:
    return target not in stems and Recognized.parse(target) is not None
