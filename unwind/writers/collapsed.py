"""Write resolved samples as collapsed stacks, which flame graphs take: each stack once, the outermost frame first.

    shop;main;payments();List<Payment>::grow() 12

A process's name stands first where the recording has one (a label `comm`). Inlined functions and those that tail calls
left out are frames like others. The count is one of a recording's values: bytes in use of a heap profile, time of a CPU
profile. A stack that counts nothing is left out. Lines are sorted. In names `;` becomes `:`, a line's end a
space, and what a terminal would act on is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from icf.errors import IcfError
from icf.printable import printable
from unwind.resolve.resolved import AnsweredSums, Resolved
from unwind.samples.recording import Label, RecordedFrame, RecordedProcess, Recording
from unwind.symbolize.answer import Answer
from unwind.writers.added_stacks import AddedStacks
from unwind.writers.lines import lines
from unwind.writers.named import Namer
from unwind.writers.stack_tree import ROOT

_PROCESS_LABEL = "comm"
_NO_FRAMES = "[unknown]"
_HINT = "write pprof, which has such counts"
_REPLACED = str.maketrans({";": ":", "\n": " ", "\r": " "})


def open_writer(recording: Recording, namer: Namer) -> CollapsedWriter:
    """Return what writes samples for flame graphs."""
    return CollapsedWriter(recording, namer)


class CollapsedWriter:
    """Adds up samples, and writes them when all are there."""

    def __init__(self, recording: Recording, namer: Namer) -> None:
        self._namer, self._recording = namer, recording
        self._names: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._of_name: dict[str, int] = {}  # several can have one text
        self._stacks = AddedStacks(self._numbers_of, [self._number(_NO_FRAMES)])
        self._roots = {"": ROOT}  # by the process's name

    def write(self, resolved: Resolved) -> bytes:
        """Add a sample; nothing is written yet."""
        sample, _ = resolved
        count = sample.origin if isinstance(sample.origin, Decimal) else sample.weights[self._recording.shown]
        self._stacks.add(resolved, count, self._root(sample.labels))
        return b""

    def write_sums(self, answered: AnsweredSums) -> Iterator[bytes]:
        """Add samples that are added up; nothing is written yet."""
        self._stacks.add_sums(answered, self._recording.shown, self._root(answered.sums.labels))
        return iter(())

    def end(self) -> Iterator[bytes]:
        """Yield the lines."""
        tree = self._stacks.tree()
        lowest = min(tree.weights.values(), default=0)
        if lowest < 0:
            raise IcfError(f"collapsed stacks: a stack counts {lowest}", hint=_HINT)
        texts = {node: _text(count) for node, count in tree.weights.items() if count}
        yield from lines(tree, self._names, texts)

    def _root(self, labels: Iterable[Label]) -> int:
        """Return the node of the name of a process."""
        for label in labels:
            if label.key == _PROCESS_LABEL and isinstance(label.value, str):
                if label.value not in self._roots:
                    self._roots[label.value] = self._stacks.below(self._number(label.value))
                return self._roots[label.value]
        return ROOT

    def _numbers_of(self, frame: RecordedFrame, answer: Answer, _: RecordedProcess) -> list[int]:
        return [self._number(each.name) for each in reversed(self._namer.frame(frame, answer))]

    def _number(self, name: str) -> int:
        """Return the number of a name."""
        number = self._of_name.get(name)
        if number is None:
            text = printable(name.translate(_REPLACED)).encode()
            number = self._of_name[name] = self._numbers.setdefault(text, len(self._names))
            if number == len(self._names):
                self._names.append(text)
        return number


def _text(count: int | Decimal) -> bytes:
    """Return the end of a line."""
    if isinstance(count, int):
        return b" %d\n" % count
    return (f" {count:f}\n" if count % 1 else f" {count:.0f}\n").encode()
