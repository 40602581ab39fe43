"""PE images and PDBs from trees of symbol servers, which `_NT_SYMBOL_PATH` lists as for Windows' debuggers.

    _NT_SYMBOL_PATH="/srv/symbols;srv*/home/me/symbols*https://msdl.microsoft.com/download/symbols"

    DIR                        a directory: DIR/app.pdb, DIR/KEY
    srv*STORE*...*STORE        directories and URLs: STORE/KEY. What a URL has is kept in the first directory before it
    symsrv*symsrv.dll*STORE*.. the same
    cache*DIR                  what URLs after it have is kept there

KEY is `app.pdb/GUIDAGE/app.pdb` or `app.exe/TIMESTAMPSIZE/app.exe` (`icf.pe.keys`), looked up as spelled on Windows and
in lower case. Below a store with a file `index2.txt` a folder of the first two letters comes before it. Without a
directory before a URL, files are kept in ~/.cache/icf-symbols. Trees may have pointers to files in their place
(`icf.remote.storedforms`); servers are not asked for those, nor for compressed files (`app.pd_`).

Each file is checked against what was asked for, wherever it is found. An empty file at ~/.cache/icf-symbols/KEY says
for ten minutes that no server has the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from icf.cachefolder import problem_of_owner
from icf.log import warn
from icf.pe.keys import parse_pdb_key, pdb_key, spellings
from icf.remote.storedforms import stored_path

if TYPE_CHECKING:
    from icf.pe.debugdirectory import CodeView
    from icf.remote.download import Limits
    from icf.remote.fetch import Outcome

SYMBOL_PATH = "_NT_SYMBOL_PATH"
_TWO_TIERS = "index2.txt"


class Store(NamedTuple):
    """A directory or a URL, and where to keep what a URL has."""

    place: str
    kept_in: str = ""  # "" for a directory
    is_flat: bool = False  # files may also be in the directory itself


def symbol_path() -> list[Store]:
    """Return what `_NT_SYMBOL_PATH` lists; empty without it."""
    stores: list[Store] = []
    cache = ""
    for element in os.environ.get(SYMBOL_PATH, "").split(";"):
        kind, *places = (part.strip() for part in element.split("*"))
        if kind.lower() == "cache" and places:
            cache = places[0] or _default_folder()
            stores.append(Store(cache))
        elif kind.lower() in ("srv", "symsrv"):
            stores += _chain(places[1:] if kind.lower() == "symsrv" else places, cache)
        elif kind and not places:
            stores += _chain([kind], cache) if _is_url(kind) else [Store(kind, is_flat=True)]
    return stores


def find(key: str, check: Callable[[str], str]) -> str | None:
    """Return the path of a PE image or PDB, which is fetched if no directory has it; reports what is wrong.

    Args:
        key: of the file, by `icf.pe.keys`.
        check: returns why a file is not the one that was asked for, "" if it is.

    Returns:
        Its path; None if no store has it.
    """
    from icf.remote.fetch import Outcome, is_absent, remember_absence

    stores, marker, outcomes = symbol_path(), os.path.join(_default_folder(), key), set[Outcome]()
    asks_servers = any(store.kept_in for store in stores) and not is_absent(marker)
    for store in stores:
        found = _found(Store(store.kept_in) if store.kept_in else store, key, check)
        if found is None and store.kept_in and asks_servers:
            found, outcome = _fetched(store, key, check)
            outcomes.add(outcome)
        if found is not None:
            return found
    if outcomes == {Outcome.ABSENT}:
        remember_absence(marker)
    return None


def find_pdb(codeview: CodeView, path: str) -> str | None:
    """Return the path of the PDB of an image, as `find` does; `path` is for messages."""
    from icf.pe.debugfile import wrong_pdb

    key = codeview.signature + codeview.age.to_bytes(4, "little")
    return find(pdb_key(codeview, path), lambda there: wrong_pdb(there, key))


def kept_path(codeview: CodeView, path: str) -> str:
    """Return where it is kept that no server has the PDB of an image; `path` is for messages."""
    return os.path.join(_default_folder(), pdb_key(codeview, path))


def appears(path: str) -> bool:
    """Return whether a PDB that was missing can be had now; `path` is what `kept_path` returned, or another one."""
    folder = os.path.join(_default_folder(), "")
    codeview = parse_pdb_key(path.removeprefix(folder)) if path.startswith(folder) else None
    return codeview is not None and find_pdb(codeview, path) is not None


def _chain(places: list[str], cache: str) -> Iterator[Store]:
    """Yield the stores of one element; an empty one is the default directory."""
    kept_in = cache
    for place in (each or _default_folder() for each in places):
        if _is_url(place):
            yield Store(place.rstrip("/"), kept_in or _default_folder())
        else:
            kept_in = kept_in or place
            yield Store(place)


def _found(store: Store, key: str, check: Callable[[str], str]) -> str | None:
    tier = f"{key[:2].lower()}/" if os.path.exists(os.path.join(store.place, _TWO_TIERS)) else ""
    candidates = [f"{tier}{spelled}" for spelled in spellings(key)]
    if store.is_flat:
        candidates.insert(0, key.partition("/")[0])
    for candidate in candidates:
        path = stored_path(os.path.join(store.place, candidate))
        if os.path.isfile(path) and os.path.getsize(path):
            problem = check(path)
            if not problem:
                return path
            warn(f"{path}: {problem.removeprefix(f'{path}: ')}: not used")
    return None


def _fetched(store: Store, key: str, check: Callable[[str], str]) -> tuple[str | None, Outcome]:
    from icf.remote.fetch import Outcome, fetch

    if store.kept_in == _default_folder() and (problem := problem_of_owner(store.kept_in)):
        warn(f"{store.kept_in}: {problem}: nothing is fetched")
        return None, Outcome.FAILED
    path = os.path.join(store.kept_in, key)
    for spelled in spellings(key):
        outcome = fetch(store.place, f"{store.place}/{quote(spelled)}", path, check, _limits())
        if outcome is Outcome.FETCHED:
            return path, outcome
        if outcome is Outcome.FAILED:
            return None, outcome
    return None, Outcome.ABSENT


def _limits() -> Limits:
    from icf.remote.debuginfod import limits

    return limits()


def _is_url(place: str) -> bool:
    from icf.remote.download import is_url

    return is_url(place)


def _default_folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "icf-symbols")
