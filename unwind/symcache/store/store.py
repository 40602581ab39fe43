"""Get the symcache of an image: the kept one, if it is still valid, else a new one.

    cache = open_or_build("/usr/bin/shop")          # the image need not have a name: /proc/PID/map_files/..., a memfd
    cache = open_by_build_id("91ab5f...")           # where the image is gone

A kept file is used if it is whole, was made of an image with the same digest by this version of the program, no
debug information it came from has changed, and no file has appeared that was missing (sources.py). Otherwise it is made
anew and replaced. One process makes it while others wait for a limited time; a process that has waited too long makes
it, too, which only costs time, as files are replaced as a whole.

Blocks of a file are checked when they are read, so damage may show late, in the middle of queries. The file is then
made anew, and if it holds the same content the queries go on with it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from icf.errors import FormatError, IcfError
from unwind.symcache.format.container import Container
from unwind.symcache.format.identity import Recognized
from unwind.symcache.format.sources import SECTION, Sought, Sources
from unwind.symcache.store.folder import Folder, complain, warn_if_stale
from unwind.symcache.store.ownership import COMPLETE, PARTIAL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, overload

    from unwind.symcache.reader.symcache import SymCache
    from unwind.symcache.store.lazy import LazySymCache
    from unwind.symcache.store.making import Made

WAIT_S = 60.0  # the limit of waiting for another process that builds
_ROOT_LIMIT = 16


if TYPE_CHECKING:

    @overload
    def open_or_build(
        path: str | os.PathLike[str],
        *,
        debug_file: str | None = None,
        debug_roots: Sequence[str] = (),
        cache_dir: str | os.PathLike[str] | None = None,
        shared_caches: Sequence[str] = (),
        wait_s: float = WAIT_S,
        lazy: Literal[False] = False,
    ) -> SymCache: ...

    @overload
    def open_or_build(
        path: str | os.PathLike[str],
        *,
        debug_file: str | None = None,
        debug_roots: Sequence[str] = (),
        cache_dir: str | os.PathLike[str] | None = None,
        shared_caches: Sequence[str] = (),
        wait_s: float = WAIT_S,
        lazy: bool,
    ) -> SymCache | LazySymCache: ...


def open_or_build(
    path: str | os.PathLike[str],
    *,
    debug_file: str | None = None,
    debug_roots: Sequence[str] = (),
    cache_dir: str | os.PathLike[str] | None = None,
    shared_caches: Sequence[str] = (),
    wait_s: float = WAIT_S,
    lazy: bool = False,
) -> SymCache | LazySymCache:
    """Return the symcache of an image: the kept one if it is still valid, else a new one.

    Args:
        path: the image; it need not have a name (/proc/PID/map_files/..., a memfd).
        debug_file: its separate debug file; None: found by build id or debug link.
        debug_roots: directories to search for debug information, besides /usr/lib/debug.
        cache_dir: directory of symcaches; None: $ICF_CACHE_DIR, else the user's. If it cannot be written, the symcache
        is
            made in memory, and a warning reports it.
        shared_caches: directories of symcaches that are only read, for images that `cache_dir` lacks.
        wait_s: seconds to wait for another process that builds it.
        lazy: without a complete symcache return one that keeps only the answers that were asked for.

    Returns:
        The symcache; with `lazy` perhaps a `LazySymCache`, which has the same look-ups.

    Raises:
        IcfError: the file is not a supported image, or cannot be read.
    """
    sought = Sought(os.fspath(path), debug_file, tuple(debug_roots))
    return _Store(Folder.chosen(cache_dir), wait_s, shared_caches).get(sought, lazy)


def open_by_build_id(build_id: bytes | str, *, cache_dir: str | os.PathLike[str] | None = None) -> SymCache:
    """Return the kept symcache of a build, the one used last if there are several.

    It does not check whether the image is still the same.

    Args:
        build_id: bytes, or hexadecimal digits.
        cache_dir: directory of symcaches; None: $ICF_CACHE_DIR, else the user's.

    Returns:
        The open symcache.

    Raises:
        IcfError: no symcache of that build is kept.
    """
    from unwind.symcache.reader.symcache import SymCache
    from unwind.symcache.store.room import entries_of

    folder = Folder.chosen(cache_dir)
    digits = build_id.lower() if isinstance(build_id, str) else build_id.hex()
    found = [each for each in entries_of(folder) if each.name.startswith(f"build-id-{digits}-")]
    for each in sorted(found, key=lambda each: each.used_s, reverse=True):
        if each.name.endswith(COMPLETE):
            try:
                kept = folder.open(each.name)
                if kept is not None:
                    return SymCache.from_container(kept)
            except FormatError:
                folder.remove(each.name)
    raise IcfError(f"{folder.path}: no symcache of build id {digits}", hint="build it with 'icf cache build IMAGE'")


def ensure(sought: Sought, folder: Folder, *, force: bool = False) -> tuple[str, bool]:
    """Return the symcache file of an image, and whether it has been made now. Raise OSError if it cannot be written."""
    from unwind.symcache.store.locks import locked

    recognized = folder.recognize(sought.path)
    path = folder.path_of(f"{recognized}{COMPLETE}")
    store = _Store(folder, WAIT_S)
    with locked(folder, str(recognized), WAIT_S):
        if not force and store.kept(recognized, sought)[0] is not None:
            return path, False
        from unwind.symcache.store.making import make

        made = make(sought, folder)
        _write(made, folder)
    return path, True


class _Store:
    """A directory, and how long to wait for others."""

    def __init__(self, folder: Folder, wait_s: float, shared: Sequence[str] = ()) -> None:
        self._folder, self._wait_s, self._shared = folder, wait_s, shared

    def get(self, sought: Sought, lazy: bool) -> SymCache | LazySymCache:
        """Return the symcache that is kept, or a new one."""
        recognized = self._folder.recognize(sought.path)
        cache, roots = self.kept(recognized, sought)
        if cache is None and self._shared:
            from unwind.symcache.store.shared import open_shared

            cache = open_shared(self._shared, recognized, sought)
        if cache is None and lazy:
            from unwind.symcache.store.lazy import LazySymCache

            return LazySymCache(self._folder, sought, recognized)
        if cache is None:
            from unwind.symcache.store.locks import locked

            with locked(self._folder, str(recognized), self._wait_s):
                cache, roots = self.kept(recognized, sought)  # another process may have made it meanwhile
                if cache is None:
                    return self._new(sought, roots)
        return cache

    def kept(self, recognized: Recognized, sought: Sought) -> tuple[SymCache | None, tuple[str, ...]]:
        """Return the kept symcache if it is still valid, and the debug directories searched when it was built."""
        from unwind.symcache.reader.symcache import SymCache

        name = f"{recognized}{COMPLETE}"
        try:
            kept = self._folder.open(name)
            if kept is None:
                return None, ()
            sources = Sources.parse(kept.section(SECTION), kept.path)
            if sources.problem(sought.path, sought.debug_file, sought.debug_roots):
                return None, sources.roots
            cache = SymCache.from_container(kept)
            if not cache.is_complete:
                raise FormatError(kept.path, "head", 0, "is not complete")
        except FormatError:
            self._folder.remove(name)
            return None, ()
        warn_if_stale(kept, sought.path)
        kept.repair = lambda: self._repaired(name, sought._replace(debug_roots=sources.roots))
        return cache, ()

    def _new(self, sought: Sought, roots: tuple[str, ...]) -> SymCache:
        from unwind.symcache.reader.symcache import SymCache

        merged = dict.fromkeys((*map(os.path.abspath, sought.debug_roots), *roots))
        return SymCache.from_container(build(sought._replace(debug_roots=tuple(merged)[:_ROOT_LIMIT]), self._folder))

    def _repaired(self, name: str, sought: Sought) -> Container | None:
        """Return a new file in place of one that turned out damaged; None if that cannot be made."""
        self._folder.remove(name)
        try:
            return build(sought, self._folder)
        except (IcfError, OSError):
            return None


def build(sought: Sought, folder: Folder) -> Container:
    """Make the symcache of an image, and keep it in the directory; if that is not possible it is in memory alone."""
    from unwind.symcache.store.making import make

    made = make(sought, folder)
    try:
        _write(made, folder)
        kept = folder.open(made.name)
    except OSError as error:
        complain(folder, (error.strerror or str(error)).lower())
        kept = None
    except FormatError:  # of a disk that does not keep the bytes written to it
        kept = None
    return kept or made.in_memory()


def _write(made: Made, folder: Folder) -> None:
    from unwind.symcache.store.room import keep

    keep(folder, made.name, made.pieces())
    folder.remove(f"{made.recognized}{PARTIAL}")  # the complete file replaces it
