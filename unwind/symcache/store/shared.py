"""Directories of symcaches that others fill: a build server's, a team's.

Such a directory counts only if the user names it (`--shared-cache`), since a user that can write to it decides what
frames are called. It is only read: nothing in it is made, replaced, evicted or touched, and no file of this user goes
there.

    own directory  ->  shared directories, in the order given  ->  made from the image, kept in the own directory

A file is used if it was made by this version from an image with the same bytes: its name and its head hold the digest
of the image, and the digest of the image at hand is computed here. Debug files lie elsewhere on another machine, and
their times differ, so times are not compared: a file that is here must have the size that it had there, and none may
be here that was missing there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from icf.errors import FormatError
from icf.log import warn
from unwind.symcache.format.container import Container
from unwind.symcache.format.identity import Recognized
from unwind.symcache.format.sources import SECTION, Sought, Sources
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.ownership import COMPLETE


def open_shared(folders: Iterable[str], recognized: Recognized, sought: Sought) -> SymCache | None:
    """Return the symcache of an image from the first of the directories that has it; None if none has."""
    for folder in folders:
        path = os.path.join(folder, f"{recognized}{COMPLETE}")
        try:
            cache = _open(path, recognized, sought)
        except FileNotFoundError:
            if not os.path.isdir(folder):
                warn(f"{folder}: no such folder: no symcaches from there")
            continue
        except (OSError, FormatError) as error:
            warn(f"{error}: not used" if isinstance(error, FormatError) else f"{path}: {error.strerror}: not used")
            continue
        if cache is not None:
            return cache
    return None


def _open(path: str, recognized: Recognized, sought: Sought) -> SymCache | None:
    container = Container.open(path)
    head = container.head
    if (head.identity, head.content_check) != (recognized.identity, recognized.digest):
        raise FormatError(path, "head", 0, "is the symcache of another image")
    sources = Sources.parse(container.section(SECTION), path)
    if sources.problem_elsewhere(sought.path, sought.debug_file):
        return None
    cache = SymCache.from_container(container)
    if not cache.is_complete:
        raise FormatError(path, "head", 0, "is not complete")
    return cache
