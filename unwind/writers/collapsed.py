"""Write resolved samples as collapsed stacks, which flame graphs take: each stack once, the outermost frame first.

    shop;main;payments();List<Payment>::grow() 12

A process's name stands first where the recording has one (a label `comm`). Inlined functions and those that tail calls
left out are frames like others. The count is the last of a recording's values: bytes in use of a heap profile, time of
a CPU profile. A stack that counts nothing is left out. Lines are sorted. In names `;` becomes `:`, a line's end a
space.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from icf.errors import IcfError
from unwind.resolve.resolved import AnsweredTree, Resolved, StackAnswers
from unwind.samples.recording import RecordedFrame, Recording
from unwind.symbolize.answer import Answer
from unwind.writers.named import Namer
from unwind.writers.stack_tree import ROOT, StackTree

_PROCESS_LABEL = "comm"
_NO_FRAMES = "[unknown]"
_HINT = "write pprof, which has such counts"
_REPLACED = str.maketrans({";": ":", "\n": " ", "\r": " "})
_KEPT = 1 << 18


def open_writer(recording: Recording, namer: Namer) -> CollapsedWriter:
    """Return what writes samples for flame graphs."""
    return CollapsedWriter(namer)


class CollapsedWriter:
    """Adds up samples, and writes them when all are there."""

    def __init__(self, namer: Namer) -> None:
        self._namer = namer
        self._tree = StackTree()  # of numbers of names
        self._names: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._of_stack: dict[tuple[str, StackAnswers], int | Decimal] = {}  # not added to the tree yet
        self._frames: dict[StackAnswers, tuple[RecordedFrame, ...]] = {}  # of these
        self._nodes: dict[tuple[str, AnsweredTree], dict[int, int]] = {}  # in the tree, by process's name
        self._of_state: dict[AnsweredTree, dict[int, list[int]]] = {}

    def write(self, resolved: Resolved) -> bytes:
        """Add a sample; nothing is written yet."""
        sample, answers = resolved
        process = ""
        for label in sample.labels:
            if label.key == _PROCESS_LABEL and isinstance(label.value, str):
                process = label.value
                break
        count = sample.origin if isinstance(sample.origin, Decimal) else sample.weights[-1]
        key = process, answers
        known = self._of_stack.get(key)
        if known is None:
            known = 0
            if len(self._of_stack) >= _KEPT:
                self._add_up()
            self._frames[answers] = sample.frames
        self._of_stack[key] = known + count
        return b""

    def end(self) -> Iterator[bytes]:
        """Yield the lines."""
        self._add_up()
        self._tree.finish()
        names, frames, counts = self._names, self._tree.frames, self._tree.weights
        inwards: dict[int, list[int]] = {}
        for node, caller in enumerate(self._tree.callers[1:], 1):
            inwards.setdefault(caller, []).append(node)
        waiting = [(b"", ROOT)]
        while waiting:
            outer, node = waiting.pop()
            name = names[frames[node]] if node else b""
            path = b"%b;%b" % (outer, name) if outer else name
            count = counts[node]
            if count < 0:
                raise IcfError(f"collapsed stacks: a stack counts {count}", hint=_HINT)
            if count:
                yield b"%b %b\n" % (path, f"{count:f}".encode() if count % 1 else b"%d" % count)
            following = sorted(inwards.get(node, ()), key=lambda each: names[frames[each]], reverse=True)
            waiting += [(path, each) for each in following]

    def _add_up(self) -> None:
        """Add the counts of stacks of the same names."""
        for (process, answers), count in self._of_stack.items():
            self._tree.weights[self._node(process, answers)] += count
        self._of_stack.clear()
        self._frames.clear()
        self._nodes.clear()
        self._of_state.clear()

    def _node(self, process: str, answers: StackAnswers) -> int:
        """Return the node of the innermost name of a stack."""
        tree = self._tree
        root = tree.then(ROOT, [self._number(process)]) if process else ROOT
        if answers.tree is not None:
            known = self._nodes.setdefault((process, answers.tree), {})
            return self._of_node(answers.tree, answers.node, root, known)
        frames = self._frames[answers]
        if not frames:
            return tree.then(root, [self._number(_NO_FRAMES)])
        for frame, answer in zip(reversed(frames), reversed(answers), strict=True):
            root = tree.then(root, self._numbers_of(frame, answer))
        return root

    def _of_node(self, answered: AnsweredTree, node: int, root: int, known: dict[int, int]) -> int:
        of_state = self._of_state.setdefault(answered, {})
        for inner, caller, state in answered.unknown(node, known):
            numbers = of_state.get(state)
            if numbers is None:
                numbers = of_state[state] = self._numbers_of(answered.frames[state], answered.answers[state])
            known[inner] = self._tree.then(known.get(caller, root), numbers)
        return known.get(node, root)

    def _numbers_of(self, frame: RecordedFrame, answer: Answer) -> list[int]:
        return [self._number(each.name) for each in reversed(self._namer.frame(frame, answer))]

    def _number(self, name: str) -> int:
        """Return the number of a name."""
        text = name.translate(_REPLACED).encode("utf-8", "surrogateescape")
        number = self._numbers.setdefault(text, len(self._names))
        if number == len(self._names):
            self._names.append(text)
        return number
