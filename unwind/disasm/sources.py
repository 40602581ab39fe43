"""The source line of each instruction, from the symcache of the image.

After folding one address has a line in each of the functions that share it. The lines shown are those of the member
that was asked for by name, else of the first: name and line are of one function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unwind.disasm.select import Region

if TYPE_CHECKING:
    from unwind.symcache.reader.symcache import SymCache


class SourcePlace(NamedTuple):
    """A line, and the functions that are inlined there, innermost first."""

    file: str
    line: int
    inlined: tuple[str, ...] = ()  # linkage names


class Sources:
    """Lines by one symcache."""

    def __init__(self, cache: SymCache) -> None:
        self._cache = cache
        self._region: Region | None = None
        self._member_idx: int | None = None

    def place(self, region: Region, vaddr: int) -> SourcePlace | None:
        """Return where an instruction of a region comes from; None if that is not known."""
        if region is not self._region:
            self._region, self._member_idx = region, self._find_member(region)
        if self._member_idx is None:
            return None
        frames = self._cache.frames(vaddr, self._member_idx)
        if not frames or not frames[0].file or not frames[0].line:
            return None
        return SourcePlace(
            frames[0].file, frames[0].line, tuple(frame.linkage_name for frame in frames if frame.is_inlined)
        )

    def _find_member(self, region: Region) -> int | None:
        """Return the region's member, as the symcache counts them."""
        body = region.body
        found = None if body is None else self._cache.find(body.start)
        if body is None or found is None or found.start != body.start:
            return None
        wanted = body.members[region.member_idx]
        names = {wanted.name, *wanted.aliases}
        rows = [idx for idx, each in enumerate(found.members) if not names.isdisjoint((each.name, *each.aliases))]
        return rows[0] if len(rows) == 1 else None
