"""All stacks of a profile as one tree, without its twigs.

Stacks are sorted, so those that begin alike stand together, and the tree is written in one pass, frame by frame: a
frame is done when a stack comes that does not have it. Only then its weight is known, and rows are taken back that turn
out too light. So memory holds the different stacks and the rows that stay, however large the tree is.

    main a b  3        main  8
    main a c  1          a   4     b 3, c 1
    main d    4          d   4
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from unwind.report.data import Kind, Row, Tree

DEPTH_LIMIT = 256
_SMALLEST_SHARE = 10_000  # a frame of less than a ten thousandth is a tenth of a pixel on a wide screen
_ROW_LIMIT = 30_000


class Shown(NamedTuple):
    """A frame as a tree shows it."""

    name: str
    kind: Kind = Kind.SAME
    other: str = ""


Path = tuple[int, ...]  # numbers of frames, outermost first


class FrameNumbers:
    """Numbers of frames; equal ones have the same."""

    def __init__(self) -> None:
        self.frames: list[Shown] = []
        self._numbers: dict[Shown, int] = {}

    def of(self, frame: Shown) -> int:
        """Return the number of a frame."""
        number = self._numbers.get(frame)
        if number is None:
            number = self._numbers[frame] = len(self.frames)
            self.frames.append(frame)
        return number


def tree_of(paths: Mapping[Path, int], frames: Sequence[Shown], row_limit: int = _ROW_LIMIT) -> Tree:
    """Return the tree of stacks, each with its weight; the lighter frames are left out until `row_limit` rows stay."""
    total = sum(paths.values())
    in_order = sorted(paths.items())
    threshold = -(-total // _SMALLEST_SHARE)
    while True:
        rows = _rows(in_order, frames, total, threshold)
        if len(rows) <= row_limit:
            return Tree(tuple(rows), threshold)
        threshold *= 2


def _rows(paths: Iterable[tuple[Path, int]], frames: Sequence[Shown], total: int, threshold: int) -> list[Row]:
    rows = [Row(0, "all", Kind.SAME, total)]
    open_: list[int] = []  # the frames of the stack above, outermost first
    weights: list[int] = []
    begins: list[int] = []  # where the row of each stands, or would

    def close(depth: int) -> None:
        while len(open_) > depth:
            frame, weight, begin = open_.pop(), weights.pop(), begins.pop()
            if weights:
                weights[-1] += weight
            if weight < threshold:
                del rows[begin:]
            else:
                name, kind, other = frames[frame]
                rows[begin] = Row(len(open_) + 1, name, kind, weight, other)

    common = 0  # frames that a stack begins with as the one before it
    for (path, weight), (following, _) in pairwise(chain(paths, [((), 0)])):
        close(common)
        depth, common = common, _common(path, following)
        # frames that no other stack has are as light as this one
        end = DEPTH_LIMIT if weight >= threshold else min(max(depth, common), DEPTH_LIMIT)
        for frame in path[depth:end]:
            open_.append(frame)
            weights.append(0)
            begins.append(len(rows))
            rows.append(rows[0])  # its place
        if weights:
            weights[-1] += weight
    close(0)
    return rows


def _common(first: Path, second: Path) -> int:
    """Return how many frames two stacks begin with alike."""
    depth, end = 0, min(len(first), len(second))
    while depth < end and first[depth] == second[depth]:
        depth += 1
    return depth
