"""The directory for what this program keeps between runs: where it is, and whether it is this user's own.

    ~/.cache/icf          symcaches (`unwind.symcache.store`)
    ~/.cache/icf/links    what is known of links (`linkpass.link.kept_links`)

What is kept answers in place of what it was made from, so a user that can write there decides what every frame is
called. A directory counts if it belongs to the user that runs this process and no other user may write to it.
"""

from __future__ import annotations

import os
import stat

LINKS = "links"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def chosen_directory(cache_dir: str | os.PathLike[str] | None = None) -> tuple[str, str]:
    """Return the directory that is named, that of $ICF_CACHE_DIR, or the user's, and a home: a directory that must be
    this user's own before the first is made.
    """
    path, home = os.fspath(cache_dir) if cache_dir is not None else os.environ.get("ICF_CACHE_DIR", ""), ""
    if not path:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):
            home = os.path.expanduser("~")
            base = os.path.join(home, ".cache")
        elif os.path.isdir(base):
            home = base
        path = os.path.join(base, "icf")
    if not path.startswith("~"):  # without a home directory `~` stays
        path = os.path.abspath(path)
    return path, home


def is_own(status: os.stat_result) -> bool:
    """Return whether a file or directory belongs to this user, and no other user may write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def problem_of_owner(path: str) -> str | None:
    """Return why the directory at `path` is not used; empty if it is; None if it does not exist yet."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE:
        return f"other users may write to it (mode {stat.S_IMODE(status.st_mode):o})"
    return ""


def problem_of_home(path: str) -> str:
    """Return why no directory is made in the home at `path`."""
    try:
        status = os.stat(path)
    except OSError as error:
        return f"{path}: {(error.strerror or str(error)).lower()}"
    return "" if status.st_uid == os.geteuid() else f"{path} belongs to user {status.st_uid}"
