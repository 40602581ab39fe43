"""Resolved stacks added up as a tree, frame by frame as a format shows them.

What a format makes of a frame with its answer is a row of numbers, and is made once. Stacks of a tree of calls are
added by a kernel, many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from icf.columns import U64
from unwind.resolve.resolved import NO_FRAME, AnsweredSums, AnsweredTree, Resolved, StackAnswers
from unwind.samples.recording import RecordedFrame, RecordedProcess
from unwind.symbolize.answer import Answer
from unwind.writers.stack_tree import ROOT, NumberRows, StackTree

_WAITING = 1 << 17  # different stacks

NumbersOf = Callable[[RecordedFrame, Answer, RecordedProcess], Sequence[int]]


class AddedStacks:
    """A tree of stacks that resolved samples are added to.

    Args:
        numbers_of: returns what stands for a frame of a process, outermost first.
        empty: what stands for a stack without frames; None: these are left out.
    """

    def __init__(self, numbers_of: NumbersOf, empty: Sequence[int] | None = None) -> None:
        self._numbers_of, self._empty = numbers_of, empty
        self._tree = StackTree()
        self._waiting: dict[tuple[int, StackAnswers], Any] = {}
        self._resolved: dict[StackAnswers, Resolved] = {}  # of these
        self._of_states: WeakKeyDictionary[AnsweredTree, NumberRows] = WeakKeyDictionary()

    def below(self, number: int) -> int:
        """Return the node of a number that stands before the frames of stacks."""
        return self._tree.add(ROOT, [number])

    def add(self, resolved: Resolved, weight: Any, root: int = ROOT) -> None:
        """Add a stack inwards of a node."""
        key = root, resolved.answers
        known = self._waiting.get(key)
        if known is None:
            if len(self._waiting) >= _WAITING:
                self._add_up()
            self._resolved[resolved.answers] = resolved
            self._waiting[key] = weight
        else:
            self._waiting[key] = known + weight

    def add_sums(self, answered: AnsweredSums, value_idx: int, root: int = ROOT) -> None:
        """Add stacks inwards of a node, each with its weight of one of the recording's values, if that is not 0."""
        weights = answered.sums.weights[value_idx]
        counts = weights != 0
        self._add_along(answered.tree, answered.sums.nodes[counts], weights[counts].tolist(), root)
        for _, _, resolved in answered.whole:
            if weight := resolved.sample.weights[value_idx]:
                self.add(resolved, weight, root)

    def tree(self) -> StackTree:
        """Return the tree of all stacks that were added."""
        self._add_up()
        return self._tree

    def _add_up(self) -> None:
        together: dict[tuple[int, AnsweredTree], dict[int, Any]] = {}
        for (root, answers), weight in self._waiting.items():
            if answers.tree is not None:
                together.setdefault((root, answers.tree), {})[answers.node] = weight
                continue
            sample, _ = self._resolved[answers]
            numbers: list[int] = []
            for frame, answer in zip(reversed(sample.frames), reversed(answers), strict=True):
                numbers += self._numbers_of(frame, answer, sample.process)
            self._add_weights([self._tree.add(root, numbers)], [weight], root)
        for (root, tree), weights in together.items():
            self._add_along(tree, np.fromiter(weights, np.uint64, len(weights)), weights.values(), root)
        self._waiting.clear()
        self._resolved.clear()

    def _add_along(self, answered: AnsweredTree, nodes: U64, weights: Iterable[Any], root: int) -> None:
        """Add stacks of a tree of calls."""
        rows = self._of_states.setdefault(answered, NumberRows())
        for state in range(len(rows), len(answered.answers)):
            frame = answered.frames[state]
            is_root = frame is NO_FRAME
            rows.append(() if is_root else self._numbers_of(frame, answered.answers[state], answered.processes[state]))
        tree = self._tree
        added = tree.add_along(answered.calls, nodes, answered.states, rows, (answered.calls.roots, root))
        self._add_weights(added.tolist(), weights, root)

    def _add_weights(self, nodes: Sequence[int], weights: Iterable[Any], root: int) -> None:
        """Add weights to the nodes of stacks inwards of another."""
        of_nodes = self._tree.weights
        for node, weight in zip(nodes, weights, strict=True):
            if node != root:
                of_nodes[node] += weight
            elif self._empty is not None:
                of_nodes[self._tree.add(root, self._empty)] += weight
