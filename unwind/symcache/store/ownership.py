"""Whether a directory is this user's directory of symcaches: only then is it read, written to, or tidied.

A symcache answers in place of its image, so a user that can write one decides what every frame is called. A directory
counts if it belongs to the user that runs this process and no other user may write to it. The directory of another
user, which root has where HOME is that user's, and a directory that all may write to, are not used: a warning has the
reason, and symbols are then made in memory.

The directory also has to be one of symcaches. `--cache-dir` may name any directory, and eviction removes files in it.
So a new directory gets a marker, the file `icf-symcaches`. A directory without a marker counts if it is empty,
or has only entries in it, as earlier versions left them; one with anything else in it is not used.
"""

from __future__ import annotations

import os

from icf.cachefolder import LINKS, problem_of_owner
from unwind.symcache.format.identity import Recognized

COMPLETE, PARTIAL, STAMPS, MARKER = ".symcache", ".partial", "stamps", "icf-symcaches"
_HEX = frozenset("0123456789abcdef")
_RANDOM_DIGITS = 16  # of `icf.newfile`


def problem_of(path: str) -> str | None:
    """Return why the directory at `path` is not used; empty if it is; None if it does not exist yet."""
    problem = problem_of_owner(path)
    if problem is None or problem:
        return problem
    try:
        if os.path.lexists(os.path.join(path, MARKER)):
            return ""
        strange = sorted(
            name for name in os.listdir(path) if not (name in (STAMPS, LINKS) or is_entry(name) or is_left(name))
        )
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return f"is not a directory of symcaches: it contains {strange[0]!r}" if strange else ""


def is_entry(name: str) -> bool:
    """Return whether a file has the name of a symcache, complete or partial."""
    stem, kind = os.path.splitext(name)
    return kind in (COMPLETE, PARTIAL) and Recognized.parse(stem) is not None


def is_left(name: str) -> bool:
    """Return whether a file has the name of a lock or of a file that is being written, which a killed builder
    leaves.
    """
    if not name.startswith("."):
        return False
    stem, _, last = name[1:].rpartition(".")
    if last != "lock" and (len(last) != _RANDOM_DIGITS or not _HEX.issuperset(last)):
        return False
    return is_entry(stem) or Recognized.parse(stem) is not None


def is_stamp(name: str) -> bool:
    """Return whether a link has the name of a stamp of a file."""
    parts = name.split("-")
    return len(parts) == 5 and all(part and _HEX.issuperset(part) for part in parts)
