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
from unwind.resolve.resolved import AnsweredCall, Resolved, StackAnswers
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
        self._calls: dict[str, dict[AnsweredCall, _Name]] = {}  # by process's name
        self._of_answer: dict[Answer, list[bytes]] = {}  # of a call: no other frame has this answer
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
        path: list[bytes] = []
        waiting = [(0, b"", self._root)]
        while waiting:
            depth, name, node = waiting.pop()
            path[depth - 1 :] = [name]
            if node.count < 0:
                raise IcfError(f"collapsed stacks: a stack counts {node.count}", hint=_HINT)
            if node.count:
                count = f"{node.count:f}".encode() if node.count % 1 else b"%d" % node.count
                yield b"%b %b\n" % (b";".join(path), count)
            waiting += [(depth + 1, *each) for each in sorted(node.inwards.items(), key=itemgetter(0), reverse=True)]

    def _add_up(self) -> None:
        """Add the counts of stacks of the same names."""
        for (process, answers), count in self._of_stack.items():
            self._name(process, answers).count += count
        self._of_stack.clear()
        self._frames.clear()
        self._calls.clear()
        self._of_answer.clear()

    def _name(self, process: str, answers: StackAnswers) -> _Name:
        """Return the innermost name of a stack."""
        root = self._root.then([self._text(process)]) if process else self._root
        if answers.call is not None:
            return self._of_call(answers.call, root, self._calls.setdefault(process, {}))
        frames = self._frames[answers]
        if not frames:
            return root.then([_NO_FRAMES])
        for frame, answer in zip(reversed(frames), reversed(answers), strict=True):
            root = root.then(self._names(frame, answer))
        return root

    def _of_call(self, call: AnsweredCall, root: _Name, known: dict[AnsweredCall, _Name]) -> _Name:
        new: list[AnsweredCall] = []
        at: AnsweredCall | None = call
        while at is not None and at.frame is not None and at not in known:
            new.append(at)
            at = at.caller
        name = root if at is None or at.frame is None else known[at]
        for each in reversed(new):
            assert each.frame is not None and each.answer is not None
            texts = self._of_answer.get(each.answer)
            if texts is None:
                texts = self._of_answer[each.answer] = self._names(each.frame, each.answer)
            for text in texts:
                name = name.inwards.get(text) or name.add(text)
            known[each] = name
        return name

    def _names(self, frame: RecordedFrame, answer: Answer) -> list[bytes]:
        return [self._text(each.name) for each in reversed(self._namer.frame(frame, answer))]

    def _text(self, name: str) -> bytes:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = name.translate(_REPLACED).encode("utf-8", "surrogateescape")
        return text
