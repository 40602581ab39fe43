"""A tree of names as lines: it is put in order, and into the columns that the kernel takes (`_lines`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from icf.columns import U64
from unwind.samples.path_tree import zeros
from unwind.writers import line_columns as c
from unwind.writers._lines import write_lines
from unwind.writers.stack_tree import ROOT, StackTree

_AT_ONCE_BYTES = 1 << 17


def lines(tree: StackTree, names: Sequence[bytes], texts: Mapping[int, bytes]) -> Iterator[bytes]:
    """Yield a line for each node that has a text: its names from the outermost, with `;` between, and the text.

    Lines come in the order of their names, those of a caller before those of what it calls.

    Args:
        tree: its frames are numbers of names.
        names: all of them.
        texts: by node; not of the root.
    """
    nodes = _columns(tree, names, texts)
    counts = b"".join(texts.values())
    name_ends = np.cumsum([0, *map(len, names)], dtype=np.uint64)
    state, ends = zeros(c.STATE_WIDTH), zeros(tree.node_count)
    path, out = bytearray(_AT_ONCE_BYTES), bytearray(_AT_ONCE_BYTES)
    state[c.NODE] = nodes[ROOT, c.FIRST]
    all_names = memoryview(b"".join(names))
    while state[c.NODE]:
        written = write_lines(
            nodes.data,
            all_names,
            name_ends.data,
            memoryview(counts),
            ends,
            memoryview(path),
            memoryview(out),
            state,
        )
        yield bytes(memoryview(out)[:written])
        if state[c.PATH_BYTES] > len(path):
            path.extend(bytes(state[c.PATH_BYTES]))
        if state[c.OUT_BYTES] > len(out):
            out.extend(bytes(state[c.OUT_BYTES]))


def _columns(tree: StackTree, names: Sequence[bytes], texts: Mapping[int, bytes]) -> U64:
    """Return the nodes as `_lines` has them."""
    callers, frames = tree.callers, tree.frames
    nodes = np.zeros((len(callers), c.WIDTH), np.uint64)
    nodes[:, c.CALLER], nodes[1:, c.NAME] = callers, frames[1:]
    ranks = np.empty(len(names), np.int64)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    order = np.lexsort((ranks[frames[1:]], callers[1:])) + 1
    is_first = np.ones(len(order), bool)
    is_first[1:] = callers[order[1:]] != callers[order[:-1]]
    nodes[callers[order[is_first]], c.FIRST] = order[is_first]
    nodes[order[:-1][~is_first[1:]], c.FOLLOWING] = order[1:][~is_first[1:]]
    with_text = np.fromiter(texts, np.int64, len(texts))
    ends = np.cumsum([0, *map(len, texts.values())], dtype=np.uint64)
    nodes[with_text, c.COUNT_START], nodes[with_text, c.COUNT_END] = ends[:-1], ends[1:]
    return nodes
