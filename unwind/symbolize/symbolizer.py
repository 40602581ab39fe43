"""Addresses of an image to names, inlined functions and lines that agree.

    from unwind import Symbolizer

    with Symbolizer.open("shop") as symbolizer:
        for address in (0x9f8, 0x88e):
            found = symbolizer.symbolize(address)
            for frame in found.frames:                       # innermost inlined function first
                print(f"{frame.name} at {frame.file}:{frame.line}:{frame.column}")
            for candidate in found.candidates:               # several: the linker has folded functions here
                print("  one of", candidate.name)

An address alone does not show which of several folded functions it belongs to (`unwind.Resolver` finds it from the
stack). Then each is a *candidate* with its own inlined functions and lines, and `frames` has what all of
them have in common: the same inlined calls, the same line; the last frame, the function itself, has no name. If the
link pass has not run and gold or mold have linked, functions may have been folded without a trace: then `is_complete`
is false, and the answer is the one known function.

A return address is the address after the call: look it up less one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unwind.symbolize.answer import Answer, Candidate
from unwind.symcache.reader.symcache import SymCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from unwind.symcache.store.lazy import LazySymCache


class Symbolizer:
    """Looks addresses up in the symcache of an image; any number of threads may use it at a time.

    Args:
        cache: an open symcache; `Symbolizer.open` finds or builds the one of an image.
    """

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
        """Return the symbolizer of an image, with its kept symcache or a new one.

        Args:
            path: the image.
            debug_file: its separate debug file; None: found by build id or debug link.
            debug_roots: directories to search for debug information, besides /usr/lib/debug.
            cache_dir: directory of symcaches; None: $ICF_CACHE_DIR, else the user's.
            shared_caches: directories of symcaches that are only read.
            lazy: read only the asked functions of an image without a symcache, and keep these answers.

        Returns:
            A symbolizer; close it, or use it in a `with` block.

        Raises:
            IcfError: the file is not a supported image, or cannot be read.
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
        """Return the symbolizer of a build whose symcache is kept.

        Args:
            build_id: bytes, or hexadecimal digits.
            cache_dir: directory of symcaches; None: $ICF_CACHE_DIR, else the user's.

        Returns:
            A symbolizer; its image is not read.

        Raises:
            IcfError: no symcache of that build is kept.
        """
        from unwind.symcache.store.store import open_by_build_id

        return cls(open_by_build_id(build_id, cache_dir=cache_dir))

    def close(self) -> None:
        """Keep the answers that are not kept yet."""
        if not isinstance(self._cache, SymCache):
            self._cache.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def symbolize(self, vaddr: int) -> Answer:
        """Return the answer for an address.

        Args:
            vaddr: link-time address.

        Returns:
            The function, or the candidates, there.

        Raises:
            FormatError: the symcache is damaged and cannot be made anew.
        """
        cache = self._cache
        if isinstance(cache, SymCache):
            return self.symbolize_many((vaddr,))[0]
        located = cache.find(vaddr)
        if located is None:
            return no_function(vaddr)
        start, size_bytes, members, is_complete = located
        names = [member.name for member in members]
        if self._is_one(len(names), is_complete):
            name, frames = names[0] if is_complete else None, tuple(cache.frames(vaddr))
            return Answer(vaddr, None, name, vaddr, start, size_bytes, frames, is_complete)
        return self._merged(vaddr, start, size_bytes, names, is_complete)

    def symbolize_many(self, vaddrs: Iterable[int]) -> list[Answer]:
        """Return the answers for many addresses, ten times as fast as one by one.

        Args:
            vaddrs: link-time addresses, in any order.

        Returns:
            One answer for each address, in the same order.

        Raises:
            FormatError: the symcache is damaged and cannot be made anew.
        """
        asked = list(vaddrs)
        cache = self._cache
        if not isinstance(cache, SymCache):
            return [self.symbolize(vaddr) for vaddr in asked]
        found: list[Answer | None] = [None] * len(asked)
        for record, places in cache.by_body(asked):
            start, size_bytes, is_complete = record.start, record.size_bytes, record.is_complete
            here, names = [asked[place] for place in places], cache.linkage_names(record)
            if self._is_one(len(names), is_complete):
                name = names[0] if is_complete else None
                for place, vaddr, frames in zip(places, here, cache.chains(record, here), strict=True):
                    found[place] = Answer(vaddr, None, name, vaddr, start, size_bytes, frames, is_complete)
            else:
                for place, vaddr in zip(places, here, strict=True):
                    found[place] = self._merged(vaddr, start, size_bytes, names, is_complete)
        return [each or no_function(vaddr) for vaddr, each in zip(asked, found, strict=True)]

    @property
    def whole_cache(self) -> SymCache | None:
        """The symcache, if it covers all of the image; else None."""
        return self._cache if isinstance(self._cache, SymCache) and self._cache.is_complete else None

    def _is_one(self, member_count: int, is_complete: bool) -> bool:
        return member_count == 1 and (is_complete or not self.has_tables)

    def _merged(self, vaddr: int, start: int, size_bytes: int, names: list[str], is_complete: bool) -> Answer:
        def candidates() -> Iterator[Candidate]:
            for member_idx, name in enumerate(names):
                yield Candidate(name, self._cache, vaddr, member_idx)

        distinct = tuple(dict.fromkeys(names))
        return Answer(vaddr, None, None, vaddr, start, size_bytes, None, is_complete, distinct, candidates)

    def addresses(self, linkage_name: str) -> list[int]:
        """Return where the functions of a name begin.

        Args:
            linkage_name: as in the symbol table.

        Returns:
            Link-time addresses, ascending; empty if the image has no such function.

        Raises:
            FormatError: the symcache is damaged and cannot be made anew.
        """
        return list(self._cache.addresses(linkage_name))


def no_function(vaddr: int) -> Answer:
    """Return the answer for an address in no function."""
    from unwind.symbolize.reasons import NO_FUNCTION

    return Answer(vaddr, vaddr=vaddr, frames=(), reason=NO_FUNCTION)
