"""Take stacks some thousands at a time, so that what they have in common is looked up once.

Stacks of a million frames are taken a few at a time: memory follows the frames, not the stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from icf.errors import IcfError

STACKS, FRAMES = 4096, 1 << 20  # that are taken together; the last stack may have more frames

_Stack = TypeVar("_Stack")


def together(
    stacks: Iterable[_Stack],
    frame_count: Callable[[_Stack], int],
    has_more: Callable[[], bool] = lambda: True,
    limit: int = STACKS,
) -> Iterator[list[_Stack]]:
    """Yield the stacks in parts of up to `limit`; a part ends early where `has_more` says that nothing more waits.

    Raises `IcfError` where `stacks` does, after it has yielded the stacks before.
    """
    left = iter(stacks)
    problem: IcfError | None = None
    while problem is None:
        part: list[_Stack] = []
        count = 0
        try:
            for stack in left:
                part.append(stack)
                count += frame_count(stack)
                if len(part) >= limit or count >= FRAMES or not has_more():
                    break
        except IcfError as error:
            problem = error
        if not part:
            break
        yield part
    if problem is not None:
        raise problem
