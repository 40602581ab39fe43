"""The text of many stacks of a tree of calls: that of each frame with its answer is made once (`_stacks`)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from icf.columns import U64
from unwind.resolve.resolved import AnsweredTree
from unwind.samples.path_tree import zeros
from unwind.writers import stack_columns as c
from unwind.writers._stacks import deepest, write_stacks

_AT_ONCE_BYTES = 1 << 17

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
        self._answered, self._width, self._texts_of = answered, width, texts_of
        self._texts, self._ends = bytearray(), array("Q", [0])
        self._out = bytearray(_AT_ONCE_BYTES)

    def write(self, nodes: U64, heads: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the text of stacks: each one's head, its frames from the innermost, and an empty line."""
        head_ends = np.cumsum([0, *map(len, heads)], dtype=np.uint64).data
        all_heads, state = b"".join(heads), zeros(c.STATE_WIDTH)
        self._add_states()
        while state[c.AT] < len(nodes):
            written = write_stacks(
                nodes.data,
                self._answered.calls.nodes,
                self._answered.states,
                memoryview(all_heads),
                head_ends,
                memoryview(self._texts),
                memoryview(self._ends),
                self._width,
                memoryview(self._out),
                state,
            )
            if not written:
                self._out = bytearray(state[c.OUT_BYTES])
            yield bytes(memoryview(self._out)[:written])

    def _add_states(self) -> None:
        """Make the texts of states that are new."""
        for state in range(len(self._ends) // 2, len(self._answered.answers)):
            for text in self._texts_of(state):
                self._texts += text
                self._ends.append(len(self._texts))
