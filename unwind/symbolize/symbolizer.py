"""Addresses of an image to names, inlined functions and lines that agree.

    from unwind import Symbolizer

    with Symbolizer.open("shop") as symbolizer:
        for address in (0x9f8, 0x88e):
            found = symbolizer.symbolize(address)
            for frame in found.frames:                       # innermost inlined function first
                print(f"{frame.name} at {frame.file}:{frame.line}:{frame.column}")
            for candidate in found.candidates:               # several: the linker has folded functions here
                print("  one of", candidate.name)

An address alone does not tell which of several folded functions it belongs to (`unwind.Resolver` tells it from the
stack). Then each is a *candidate* with its own inlined functions and lines, and `frames` has what holds for all of
them: the same inlined calls, the same line; the last frame, the function itself, has no name. Where the link pass has
not been and gold or mold have linked, functions may have been folded without a trace: then `is_complete` is false, and
the one function that is known of is given, as there is nothing better.

A return address is the address after the call: look it up less one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from icf.demangle import demangle
from unwind.symcache.reader.found import Frame, Frames
from unwind.symcache.reader.symcache import SymCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from icf.model import Verdict
    from unwind.symcache.store.lazy import LazySymCache

__all__ = ["Candidate", "Frames", "Symbolized", "Symbolizer", "agreed"]


class Candidate:
    """One of the functions that share a body, at an address in it."""

    __slots__ = ("_cache", "_idx", "_vaddr", "linkage_name")

    def __init__(self, linkage_name: str, cache: SymCache | LazySymCache, vaddr: int, member_idx: int) -> None:
        self.linkage_name = linkage_name
        self._cache, self._vaddr, self._idx = cache, vaddr, member_idx

    @property
    def name(self) -> str:
        """The demangled name."""
        return demangle(self.linkage_name)

    @property
    def frames(self) -> Frames:
        """Its own inlined functions and lines; read when they are asked for, as there may be thousands of functions."""
        return tuple(self._cache.frames(self._vaddr, self._idx))


class Symbolized(NamedTuple):
    """What is known of an address."""

    vaddr: int
    start: int = 0  # of the body that holds it
    size_bytes: int = 0  # of the body; 0: no function holds the address
    frames: Frames = ()
    candidates: tuple[Candidate, ...] = ()  # none if the body is one function's
    is_complete: bool = True  # else there may be more functions than these

    @property
    def verdict(self) -> Verdict:
        """`unknown`, `unmerged` or `ambiguous`."""
        from icf.model import Verdict

        if not self.frames:
            return Verdict.UNKNOWN
        return Verdict.UNMERGED if self.is_complete and not self.candidates else Verdict.AMBIGUOUS


class Symbolizer:
    """Looks addresses up in the symcache of an image; any number of threads may ask at a time."""

    def __init__(self, cache: SymCache | LazySymCache) -> None:
        self._cache = cache
        self.has_tables = isinstance(cache, SymCache) and "icf" in cache.container

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        debug_file: str | None = None,
        debug_roots: Sequence[str] = (),
        cache_dir: str | os.PathLike[str] | None = None,
        shared_caches: Sequence[str] = (),
        lazy: bool = False,
    ) -> Self:
        """The symbolizer of the image at `path`, with the symcache that is kept of it, or a new one.

        `lazy`: what is not kept is read when it is asked for. Where debug information is searched, and where symcaches
        are kept, is as `unwind.symcache.store.store.open_or_build` says. Raises `IcfError` for what is no image.
        """
        from unwind.symcache.store.store import open_or_build

        return cls(
            open_or_build(
                path,
                debug_file=debug_file,
                debug_roots=debug_roots,
                cache_dir=cache_dir,
                shared_caches=shared_caches,
                lazy=lazy,
            )
        )

    @classmethod
    def of_build(cls, build_id: bytes | str, *, cache_dir: str | os.PathLike[str] | None = None) -> Self:
        """The symbolizer of a build whose symcache is kept; `IcfError` if there is none."""
        from unwind.symcache.store.store import open_by_build_id

        return cls(open_by_build_id(build_id, cache_dir=cache_dir))

    def close(self) -> None:
        """Keep what was read, if it is not kept yet."""
        if not isinstance(self._cache, SymCache):
            self._cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def symbolize(self, vaddr: int) -> Symbolized:
        """What is at an address as linked; raises `FormatError` where a symcache is damaged and cannot be renewed."""
        cache = self._cache
        if isinstance(cache, SymCache):
            return self.symbolize_many((vaddr,))[0]
        located = cache.find(vaddr)
        if located is None:
            return Symbolized(vaddr)
        start, size_bytes, members, is_complete = located
        if self._is_one(len(members), is_complete):
            return Symbolized(vaddr, start, size_bytes, tuple(cache.frames(vaddr)), (), is_complete)
        names = [member.name for member in members]
        return self._merged(vaddr, start, size_bytes, names, is_complete)

    def symbolize_many(self, vaddrs: Iterable[int]) -> list[Symbolized]:
        """The same of many addresses, ten times as fast."""
        asked = list(vaddrs)
        cache = self._cache
        if not isinstance(cache, SymCache):
            return [self.symbolize(vaddr) for vaddr in asked]
        found: list[Symbolized | None] = [None] * len(asked)
        for record, places in cache.by_body(asked):
            start, size_bytes, is_complete = record.start, record.size_bytes, record.is_complete
            here = [asked[place] for place in places]
            if self._is_one(len(record.names), is_complete):
                for place, vaddr, frames in zip(places, here, cache.chains(record, here), strict=True):
                    found[place] = _new(Symbolized, (vaddr, start, size_bytes, frames, (), is_complete))
            else:
                names = cache.linkage_names(record)
                for place, vaddr in zip(places, here, strict=True):
                    found[place] = self._merged(vaddr, start, size_bytes, names, is_complete)
        return [each or Symbolized(vaddr) for vaddr, each in zip(asked, found, strict=True)]

    @property
    def whole_cache(self) -> SymCache | None:
        """The symcache, if it has all of the image."""
        return self._cache if isinstance(self._cache, SymCache) and self._cache.is_complete else None

    def _is_one(self, member_count: int, is_complete: bool) -> bool:
        return member_count == 1 and (is_complete or not self.has_tables)

    def _merged(self, vaddr: int, start: int, size_bytes: int, names: list[str], is_complete: bool) -> Symbolized:
        candidates = tuple([Candidate(name, self._cache, vaddr, at) for at, name in enumerate(names)])
        is_worth_it = is_complete and len(candidates) <= _COMPARED
        frames = agreed([each.frames for each in candidates]) if is_worth_it else (_NAMELESS,)
        return Symbolized(vaddr, start, size_bytes, frames, candidates, is_complete)

    def addresses(self, linkage_name: str) -> list[int]:
        """Where the functions of that name begin; none: there is no such function."""
        return list(self._cache.addresses(linkage_name))


_new: Callable[[type[Symbolized], tuple[object, ...]], Symbolized] = tuple.__new__  # twice as fast as the class
_COMPARED = 16  # of more functions nobody looks for what they have in common
_NAMELESS = Frame("", "", 0, 0, False)


def agreed(chains: list[Frames]) -> Frames:
    """What holds whichever of the chains is the right one."""
    first = chains[0]
    if not all(chains) or any(chain[:-1] != first[:-1] for chain in chains):
        return (_NAMELESS,)
    own = first[-1]
    is_same = all(chain[-1][1:] == own[1:] for chain in chains)
    return (*first[:-1], own._replace(linkage_name="") if is_same else _NAMELESS)
