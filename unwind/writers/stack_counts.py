"""How often each stack of a tree of calls was seen."""

from __future__ import annotations

from unwind.resolve.resolved import AnsweredSums, AnsweredTree, Resolved


class StackCounts:
    """Counts the stacks of one tree.

    Attributes:
        tree: of the stacks.
        whole: those that are answered as a whole, by node.
    """

    def __init__(self, tree: AnsweredTree) -> None:
        self.tree = tree
        self.whole: dict[int, Resolved] = {}
        self._counts: dict[int, int] = {}  # by node

    def add(self, answered: AnsweredSums) -> None:
        """Count the samples of some stacks."""
        counts = self._counts
        for node, count in zip(answered.sums.nodes.tolist(), answered.sums.counts.tolist(), strict=True):
            counts[node] = counts.get(node, 0) + count
        for node, count, resolved in answered.whole:
            self.whole[node] = resolved
            counts[node] = counts.get(node, 0) + count

    def by_count(self) -> list[tuple[int, int]]:
        """Return the node of each stack and how often it was seen, the most frequent first."""
        return sorted(self._counts.items(), key=lambda each: -each[1])
