"""Write resolved samples as collapsed stacks, which flame graphs take: each stack once, the outermost frame first.

    shop;main;payments();List<Payment>::grow() 12

A process's name stands first where the recording has one (a label `comm`). Inlined functions and those that tail calls
left out are frames like others. The count is the last of a recording's values: bytes in use of a heap profile, time of
a CPU profile. A stack that counts nothing is left out. Lines are sorted. In names `;` becomes `:`, a line's end a
space.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from operator import itemgetter

from icf.errors import IcfError
from unwind.resolve.resolved import AnsweredTree, Resolved, StackAnswers
from unwind.samples.recording import RecordedFrame, Recording
from unwind.symbolize.answer import Answer
from unwind.writers.named import Namer

_PROCESS_LABEL = "comm"
_NO_FRAMES = b"[unknown]"
_HINT = "write pprof, which has such counts"
_REPLACED = str.maketrans({";": ":", "\n": " ", "\r": " "})
_KEPT = 1 << 18


def open_writer(recording: Recording, namer: Namer) -> CollapsedWriter:
    """Return what writes samples for flame graphs."""
    return CollapsedWriter(namer)


class _Name:
    """A name after those further out: what counts there, and the names inwards of it."""

    __slots__ = ("count", "inwards")

    def __init__(self) -> None:
        self.count: int | Decimal = 0
        self.inwards: dict[bytes, _Name] = {}

    def add(self, name: bytes) -> _Name:
        """Add a name inwards of this one."""
        added = self.inwards[name] = _Name()
        return added

    def then(self, names: Iterable[bytes]) -> _Name:
        """Return the last of some names, one inwards of the other."""
        node = self
        for name in names:
            node = node.inwards.get(name) or node.add(name)
        return node


class CollapsedWriter:
    """Adds up samples, and writes them when all are there."""

    def __init__(self, namer: Namer) -> None:
        self._namer = namer
        self._root = _Name()
        self._of_stack: dict[tuple[str, StackAnswers], int | Decimal] = {}  # not added to the names yet
        self._frames: dict[StackAnswers, tuple[RecordedFrame, ...]] = {}  # of these
        self._nodes: dict[tuple[str, AnsweredTree], dict[int, _Name]] = {}  # by process's name
        self._of_state: dict[AnsweredTree, dict[int, list[bytes]]] = {}
        self._texts: dict[str, bytes] = {}  # one object for each name, however many stacks have it

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
        waiting = [(b"", b"", self._root)]
        while waiting:
            outer, name, node = waiting.pop()
            path = b"%b;%b" % (outer, name) if outer else name
            if node.count < 0:
                raise IcfError(f"collapsed stacks: a stack counts {node.count}", hint=_HINT)
            if node.count:
                count = f"{node.count:f}".encode() if node.count % 1 else b"%d" % node.count
                yield b"%b %b\n" % (path, count)
            inwards = sorted(node.inwards.items(), key=itemgetter(0), reverse=True)
            waiting += [(path, text, inner) for text, inner in inwards]

    def _add_up(self) -> None:
        """Add the counts of stacks of the same names."""
        for (process, answers), count in self._of_stack.items():
            self._name(process, answers).count += count
        self._of_stack.clear()
        self._frames.clear()
        self._nodes.clear()
        self._of_state.clear()

    def _name(self, process: str, answers: StackAnswers) -> _Name:
        """Return the innermost name of a stack."""
        root = self._root.then([self._text(process)]) if process else self._root
        if answers.tree is not None:
            known = self._nodes.setdefault((process, answers.tree), {})
            return self._of_node(answers.tree, answers.node, root, known)
        frames = self._frames[answers]
        if not frames:
            return root.then([_NO_FRAMES])
        for frame, answer in zip(reversed(frames), reversed(answers), strict=True):
            root = root.then(self._names(frame, answer))
        return root

    def _of_node(self, tree: AnsweredTree, node: int, root: _Name, known: dict[int, _Name]) -> _Name:
        texts_of = self._of_state.setdefault(tree, {})
        for inner, caller, state in tree.unknown(node, known):
            texts = texts_of.get(state)
            if texts is None:
                texts = texts_of[state] = self._names(tree.frames[state], tree.answers[state])
            name = known.get(caller, root)
            for text in texts:
                name = name.inwards.get(text) or name.add(text)
            known[inner] = name
        return known.get(node, root)

    def _names(self, frame: RecordedFrame, answer: Answer) -> list[bytes]:
        return [self._text(each.name) for each in reversed(self._namer.frame(frame, answer))]

    def _text(self, name: str) -> bytes:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = name.translate(_REPLACED).encode("utf-8", "surrogateescape")
        return text
