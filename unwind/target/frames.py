"""What is inlined in the frames of answers, and where: by the lines of the function that each was found to be.

frames.meet(answers of a few thousand stacks)       looks up together what is new: each function is read once
frames.of(answer)                                   innermost inlined function first, the function itself last
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from unwind.program.program import Body, Program
from unwind.resolve.answer import FrameAnswer
from unwind.symcache.reader.found import Frame
from unwind.symcache.reader.symcache import SymCache

_KEPT_ANSWERS = 1 << 18


class Frames(Protocol):
    """Says what is inlined in a frame."""

    def meet(self, resolved: Iterable[tuple[FrameAnswer, ...]]) -> None:
        """What `of` will be asked about: the answers for some stacks."""

    def of(self, answer: FrameAnswer) -> Sequence[Frame]:
        """Innermost inlined function first, the function itself last; none where it is not known who it is."""


class OneByOne:
    """Frames that a function gives."""

    def __init__(self, of: Callable[[FrameAnswer], Sequence[Frame]]) -> None:
        self.of = of

    def meet(self, resolved: Iterable[tuple[FrameAnswer, ...]]) -> None:
        """Nothing is known beforehand."""


class KeptFrames:
    """Frames from the symcaches of programs."""

    def __init__(self, cache_of: dict[Program, SymCache]) -> None:
        self._cache_of = cache_of
        self._found: dict[FrameAnswer, Sequence[Frame]] = {}  # of answers met last
        self._met: set[FrameAnswer] = set()

    def meet(self, resolved: Iterable[tuple[FrameAnswer, ...]]) -> None:
        """Look up what is new in the answers for some stacks."""
        new = set[FrameAnswer]().union(*resolved) - self._met
        new.update([missing for answer in new for missing in answer.missing])
        if len(self._met) > _KEPT_ANSWERS:
            self._met.clear()
        self._met |= new
        self._found = self._look_up(new)

    def of(self, answer: FrameAnswer) -> Sequence[Frame]:
        """Innermost inlined function first, the function itself last; none where it is not known who it is."""
        found = self._found.get(answer)
        return self._look_up([answer])[answer] if found is None else found

    def _look_up(self, answers: Iterable[FrameAnswer]) -> dict[FrameAnswer, Sequence[Frame]]:
        frames: dict[FrameAnswer, Sequence[Frame]] = {}
        known: dict[SymCache, list[tuple[FrameAnswer, Body]]] = {}
        for answer in answers:
            frames[answer] = ()
            if answer.body is not None and answer.member_idx >= 0:
                known.setdefault(self._cache_of[answer.body.program], []).append((answer, answer.body))
        for cache, asked in known.items():
            for record, places in cache.by_body([answer.vaddr for answer, _ in asked]):
                of_member: dict[tuple[int, Body], list[FrameAnswer]] = {}
                for answer, body in map(asked.__getitem__, places):
                    of_member.setdefault((answer.member_idx, body), []).append(answer)
                for (idx, body), here in of_member.items():
                    # a table that names other functions than the symbols of its image is wrong about somebody
                    if idx < len(record.names) and cache.text(record.names[idx][0]) == body.members[idx].name:
                        chains = cache.chains(record, [answer.vaddr for answer in here], idx)
                        frames.update(zip(here, chains, strict=True))
        return frames
