"""Addresses of an image to names, inlined functions and lines that agree.

    from unwind.symbolizer import Symbolizer

    with Symbolizer.open("shop") as symbolizer:
        for address in (0x9f8, 0x88e):
            found = symbolizer.symbolize(address)
            for frame in found.frames:                       # innermost inlined function first
                print(f"{frame.name} at {frame.file}:{frame.line}:{frame.column}")
            for candidate in found.candidates:               # several: the linker has folded functions here
                print("  one of", candidate.name)

An address alone does not tell which of several folded functions it belongs to (`unwind.resolver` tells it from the
stack). Then each is a *candidate* with its own inlined functions and lines, and `frames` has what holds for all of
them: the same inlined calls, the same line; the last frame, the function itself, has no name. Where the link pass has
not been and gold or mold have linked, functions may have been folded without a trace: then `is_complete` is false, and
the one function that is known of is given, as there is nothing better.

A return address is the address after the call: look it up less one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from icf.demangle import demangle
from unwind.symcache.symcache import CachedFrame, SymCache

if TYPE_CHECKING:
    from icf.model import Verdict
    from unwind.live.symbolizer import LiveSymbolizer
    from unwind.symcache.lazy import LazySymCache

Frames = tuple[CachedFrame, ...]  # innermost first, the function that has the machine code last


class Candidate(NamedTuple):
    """One of the functions that share a body."""

    linkage_name: str
    frames: Frames

    @property
    def name(self) -> str:
        """The demangled name."""
        return demangle(self.linkage_name)


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
    """Looks addresses up in the symcache of an image."""

    def __init__(self, cache: SymCache | LazySymCache) -> None:
        self._cache = cache
        self._has_tables = isinstance(cache, SymCache) and "icf" in cache.container

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        debug_file: str | None = None,
        debug_roots: Sequence[str] = (),
        cache_dir: str | os.PathLike[str] | None = None,
        lazy: bool = False,
    ) -> Self:
        """The symbolizer of the image at `path`, with the symcache that is kept of it, or a new one.

        `lazy`: what is not kept is read when it is asked for. Where debug information is searched, and where symcaches
        are kept, is as `unwind.symcache.store.open_or_build` says. Raises `IcfError` for what is no image.
        """
        from unwind.symcache.store import open_or_build

        return cls(open_or_build(path, debug_file=debug_file, debug_roots=debug_roots, cache_dir=cache_dir, lazy=lazy))

    @classmethod
    def of_build(cls, build_id: bytes | str, *, cache_dir: str | os.PathLike[str] | None = None) -> Self:
        """The symbolizer of a build whose symcache is kept; `IcfError` if there is none."""
        from unwind.symcache.store import open_by_build_id

        return cls(open_by_build_id(build_id, cache_dir=cache_dir))

    @staticmethod
    def for_process(
        pid: int | Literal["self"] = "self",
        *,
        debug_roots: Sequence[str] = (),
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> LiveSymbolizer:
        """The symbolizer of a running process, or of this one: of all images that are mapped, and of JIT code.

        It takes run-time addresses. Raises `IcfError` if there is no such process, or it may not be looked into.
        """
        from unwind.live.symbolizer import open_process

        return open_process(pid, debug_roots=debug_roots, cache_dir=cache_dir)

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
        located = cache.find(vaddr)
        if located is None:
            return Symbolized(vaddr)
        members = located.members
        start, size_bytes, is_complete = located.start, located.size_bytes, located.is_complete
        if len(members) == 1 and (is_complete or not self._has_tables):
            return Symbolized(vaddr, start, size_bytes, tuple(cache.frames(vaddr)), (), is_complete)
        candidates = tuple([Candidate(each.name, tuple(cache.frames(vaddr, at))) for at, each in enumerate(members)])
        frames = agreed([each.frames for each in candidates]) if is_complete else (_NAMELESS,)
        return Symbolized(vaddr, start, size_bytes, frames, candidates, is_complete)

    def symbolize_many(self, vaddrs: Iterable[int]) -> list[Symbolized]:
        """The same of many addresses, faster."""
        return [self.symbolize(vaddr) for vaddr in vaddrs]

    def addresses(self, linkage_name: str) -> list[int]:
        """Where the functions of that name begin; none: there is no such function."""
        return list(self._cache.addresses(linkage_name))


_NAMELESS = CachedFrame("", "", 0, 0, False)


def agreed(chains: list[Frames]) -> Frames:
    """What holds whichever of the chains is the right one."""
    first = chains[0]
    if not all(chains) or any(chain[:-1] != first[:-1] for chain in chains):
        return (_NAMELESS,)
    own = first[-1]
    is_same = all(chain[-1][1:] == own[1:] for chain in chains)
    return (*first[:-1], own._replace(linkage_name="") if is_same else _NAMELESS)
