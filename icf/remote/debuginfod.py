"""Files of a build from debuginfod servers, and the folder in which they are kept.

    DEBUGINFOD_URLS="https://debuginfod.debian.net https://symbols.example.com"
    GET https://symbols.example.com/buildid/5d0c.../debuginfo
    ~/.cache/debuginfod_client/5d0c.../debuginfo

The folder and the environment are those of elfutils' client, debuginfod-find(1), so gdb, perf and this program fetch a
file once. The folder: $DEBUGINFOD_CACHE_PATH; ~/.debuginfod_client_cache if it exists; else debuginfod_client in
$XDG_CACHE_HOME or ~/.cache. An empty file in it says that no server had the file; it counts for ten minutes, or as many
seconds as the file `cache_miss_s` has. Limits: $DEBUGINFOD_TIMEOUT (90 s for each 100 KB), $DEBUGINFOD_MAXTIME (s),
$DEBUGINFOD_MAXSIZE (bytes). Without DEBUGINFOD_URLS no server is asked, and what was fetched before is used.

A file is used only if it has the build id that was asked for, and is what was asked for: fetched now or years ago,
by this program or another. It gets its name once that has been checked. The build id does not show that nothing else in
the file was changed: who runs the server decides what functions are called.
"""

from __future__ import annotations

import os
import stat
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

from icf.errors import IcfError
from icf.log import warn

if TYPE_CHECKING:
    from icf.elf.image import Image
    from icf.remote.download import Limits

URLS, CACHE_PATH = "DEBUGINFOD_URLS", "DEBUGINFOD_CACHE_PATH"
_TIMEOUT_S, _SIZE_LIMIT_BYTES = 90.0, 8 << 30
_ID_BYTES = range(8, 65)  # shorter ones are not the identity of one build


class Kind(Enum):
    """What to ask for."""

    DEBUG_INFO = "debuginfo"
    EXECUTABLE = "executable"


def cache_folder() -> str:
    """Return the folder of elfutils' client."""
    chosen = os.environ.get(CACHE_PATH, "")
    if chosen:
        return os.path.abspath(chosen)
    home = os.path.expanduser("~")
    old = os.path.join(home, ".debuginfod_client_cache")
    if os.path.isdir(old):
        return old
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(home, ".cache"), "debuginfod_client")


def kept_path(build_id: bytes, kind: Kind) -> str:
    """Return where a file of a build is kept, whether or not it is there; empty if the id is not one to ask for."""
    return os.path.join(cache_folder(), build_id.hex(), kind.value) if len(build_id) in _ID_BYTES else ""


def find(build_id: bytes, kind: Kind) -> str | None:
    """Return the path of a file of a build, which is fetched if it is not kept; reports what servers do wrong.

    Args:
        build_id: the whole build id.
        kind: which file of the build.

    Returns:
        The path in the folder; None if no server has the file.
    """
    path = kept_path(build_id, kind)
    if not path or _is_distrusted(cache_folder()):
        return None
    if os.path.isfile(path) and os.path.getsize(path):
        problem = _problem(path, build_id, kind)
        if not problem:
            return path
        warn(f"{path}: {problem}: not used")
    if not os.environ.get(URLS, "").strip() or _is_known_absent(path):
        return None
    return path if _fetch(path, build_id, kind) else None


def appears(path: str) -> bool:
    """Return whether a file that was missing in the folder can be had now; it is fetched.

    Args:
        path: as `kept_path` returned it; another path is not looked for.
    """
    if not os.environ.get(URLS, "").strip():
        return False
    folder, name = os.path.split(path)
    if os.path.dirname(folder) != cache_folder() or name not in (each.value for each in Kind):
        return False
    try:
        build_id = bytes.fromhex(os.path.basename(folder))
    except ValueError:
        return False
    return find(build_id, Kind(name)) is not None


def _fetch(path: str, build_id: bytes, kind: Kind) -> bool:
    """Ask each server for a file; keep it, or that none has it."""
    from icf.remote.fetch import Outcome, fetch, remember_absence

    outcomes = set()
    for server in os.environ[URLS].split():
        if server.startswith("ima:"):
            if server == "ima:ignore":
                continue
            warn(f"{URLS}: {server}: signatures of files are not checked, so no server is asked")
            return False
        url = f"{server.rstrip('/').removesuffix('/buildid')}/buildid/{build_id.hex()}/{kind.value}"
        outcome = fetch(server, url, path, lambda there: _problem(there, build_id, kind), limits())
        if outcome is Outcome.FETCHED:
            return True
        outcomes.add(outcome)
    if outcomes == {Outcome.ABSENT}:
        remember_absence(path)
    return False


def limits() -> Limits:
    """Return the limits of a download that the environment sets."""
    from icf.remote.download import Limits

    timeout_s, size_bytes = _number("DEBUGINFOD_TIMEOUT"), _number("DEBUGINFOD_MAXSIZE")
    return Limits(timeout_s or _TIMEOUT_S, _number("DEBUGINFOD_MAXTIME"), int(size_bytes) or _SIZE_LIMIT_BYTES)


def _problem(path: str, build_id: bytes, kind: Kind) -> str:
    """Return why a file is not the one that was asked for; empty if it is."""
    from icf.elf.image import Image

    try:
        with Image.open(path, allow_rel=True) as image:
            if image.build_id != build_id:
                return f"has build id {image.build_id.hex() or 'none'}, not {build_id.hex()}"
            return "" if _is_kind(image, kind) else f"is not the {kind.value} of the build"
    except IcfError as error:
        return str(error).removeprefix(f"{path}: ")


def _is_kind(image: Image, kind: Kind) -> bool:
    return kind is Kind.DEBUG_INFO or not image.is_debug_file


def _is_known_absent(path: str) -> bool:
    from icf.remote.fetch import is_absent

    return is_absent(path, _miss_s())


def _miss_s() -> float:
    from icf.remote.fetch import ABSENCE_S

    try:
        with open(os.path.join(cache_folder(), "cache_miss_s"), encoding="ascii") as file:
            return float(int(file.read(32)))
    except (OSError, ValueError):
        return ABSENCE_S


def _number(variable: str) -> float:
    try:
        number = float(os.environ.get(variable, "") or 0)
    except ValueError:
        return 0.0
    return number if 0 < number < 1e12 else 0.0


@cache
def _is_distrusted(folder: str) -> bool:
    """Return whether other users decide what is in the folder: one that all may write to, or another user's."""
    try:
        status = os.stat(folder)
    except OSError:
        return False
    if status.st_uid not in (0, os.geteuid()):
        warn(f"{folder}: belongs to user {status.st_uid}: not used")
        return True
    if status.st_mode & stat.S_IWOTH:
        warn(f"{folder}: other users may write to it (mode {stat.S_IMODE(status.st_mode):o}): not used")
        return True
    return False
