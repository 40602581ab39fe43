"""The text of many stacks of a tree of calls: that of each frame with its answer is made once (`_stacks`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from icf.columns import U64
from unwind.resolve.resolved import AnsweredTree
from unwind.samples.path_tree import zeros
from unwind.writers import stack_columns as c
from unwind.writers._stacks import deepest, write_stacks

_AT_ONCE_BYTES = 1 << 20

TextsOf = Callable[[int], tuple[bytes, bytes]]


def number_width(answered: AnsweredTree, nodes: U64) -> int:
    """Return how wide a column is in which each frame of some stacks has its number, with `#` before it."""
    return len(f"#{max(deepest(nodes.data, answered.calls.nodes), 1) - 1}")


class StackTexts:
    """Writes stacks of a tree.

    Args:
        answered: the tree.
        width: of the column with the numbers of frames; 0: there is none.
        texts_of: returns what is written of a state, before the number of its frame and after it.
    """

    def __init__(self, answered: AnsweredTree, width: int, texts_of: TextsOf) -> None:
        self._answered, self._width = answered, width
        both = [texts_of(state) for state in range(len(answered.answers))]
        pieces = [text for each in both for text in each]
        self._texts, self._ends = b"".join(pieces), _ends(pieces)
        self._out = bytearray(_AT_ONCE_BYTES)

    def write(self, nodes: U64, heads: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the text of stacks: each one's head, its frames from the innermost, and an empty line."""
        head_ends, all_heads, state = _ends(heads), b"".join(heads), zeros(c.STATE_WIDTH)
        while state[c.AT] < len(nodes):
            written = write_stacks(
                nodes.data,
                self._answered.calls.nodes,
                self._answered.states,
                memoryview(all_heads),
                head_ends,
                memoryview(self._texts),
                self._ends,
                self._width,
                memoryview(self._out),
                state,
            )
            if not written:
                self._out = bytearray(state[c.OUT_BYTES])
            yield bytes(memoryview(self._out)[:written])


def _ends(texts: Sequence[bytes]) -> memoryview:
    """Return where each text starts, and where the last ends."""
    return np.cumsum([0, *map(len, texts)], dtype=np.uint64).data
