"""What is inlined in the frames of answers, and where: by the lines of the function that each was found to be.

frames.meet(answers of a few thousand stacks)       looks up together what is new: each function is read once
frames.of(answer)                                   innermost inlined function first, the function itself last
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from unwind.programs.program import Body, Program
from unwind.resolve.answer import FrameAnswer
from unwind.symcache.symcache import CachedFrame, SymCache

_KEPT_ANSWERS = 1 << 18


class Frames(Protocol):
    """Says what is inlined in a frame."""

    def meet(self, resolved: Iterable[tuple[FrameAnswer, ...]]) -> None:
        """What `of` will be asked about: the answers for some stacks."""

    def of(self, answer: FrameAnswer) -> Sequence[CachedFrame]:
        """Innermost inlined function first, the function itself last; none where it is not known who it is."""


class OneByOne:
    """Frames that a function gives."""

    def __init__(self, of: Callable[[FrameAnswer], Sequence[CachedFrame]]) -> None:
        self.of = of

    def meet(self, resolved: Iterable[tuple[FrameAnswer, ...]]) -> None:
        """Nothing is known beforehand."""


class KeptFrames:
    """Frames from the symcaches of programs."""

    def __init__(self, cache_of: dict[Program, SymCache]) -> None:
        self._cache_of = cache_of
        self._found: dict[FrameAnswer, Sequence[CachedFrame]] = {}  # of answers met last
        self._met: set[FrameAnswer] = set()
        self._is_named: dict[tuple[Body, int, int], bool] = {}

    def meet(self, resolved: Iterable[tuple[FrameAnswer, ...]]) -> None:
        """Look up what is new in the answers for some stacks."""
        new = set[FrameAnswer]().union(*resolved) - self._met
        new.update([missing for answer in new for missing in answer.missing])
        if len(self._met) > _KEPT_ANSWERS:
            self._met.clear()
        self._met |= new
        self._found.clear()
        answers_of: dict[SymCache, list[FrameAnswer]] = {}
        for answer in new:
            if answer.body is not None and answer.member_idx == 0:
                answers_of.setdefault(self._cache_of[answer.body.program], []).append(answer)
        for cache, answers in answers_of.items():
            named = [answer for answer in answers if self._names(cache, answer)]
            frames = cache.frames_many([answer.vaddr for answer in named])
            self._found.update(zip(named, frames, strict=True))

    def of(self, answer: FrameAnswer) -> Sequence[CachedFrame]:
        """Innermost inlined function first, the function itself last; none where it is not known who it is."""
        found = self._found.get(answer)
        if found is not None:
            return found
        if answer.body is None or answer.member_idx < 0:
            return ()
        cache = self._cache_of[answer.body.program]
        return cache.frames(answer.vaddr, answer.member_idx) if self._names(cache, answer) else ()

    def _names(self, cache: SymCache, answer: FrameAnswer) -> bool:
        """Whether the symcache has the member by that name: a table of other names is wrong about somebody."""
        body, idx = answer.body, answer.member_idx
        assert body is not None
        entry = cache.entry_at(answer.vaddr)
        is_named = self._is_named.get((body, idx, entry))
        if is_named is None:
            found = cache.located(entry) if entry >= 0 else None
            is_named = (
                found is not None and idx < len(found.members) and found.members[idx].name == body.members[idx].name
            )
            self._is_named[body, idx, entry] = is_named
        return is_named
