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

from icf.errors import IcfError
from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.samples.recording import RecordedFrame, Recording
from unwind.symbolize.answer import Answer
from unwind.writers.named import Namer

_PROCESS_LABEL = "comm"
_NO_FRAMES = (b"[unknown]",)
_REPLACED = str.maketrans({";": ":", "\n": " ", "\r": " "})
_KEPT = 1 << 18

_Names = tuple[bytes, ...]


def open_writer(recording: Recording, namer: Namer) -> CollapsedWriter:
    """Return what writes samples for flame graphs."""
    return CollapsedWriter(namer)


class CollapsedWriter:
    """Adds up samples, and writes them when all are there."""

    def __init__(self, namer: Namer) -> None:
        self._namer = namer
        self._counts: dict[_Names, int | Decimal] = {}
        self._of_stack: dict[tuple[_Names, StackAnswers], int | Decimal] = {}  # not added to these yet
        self._names: dict[tuple[RecordedFrame, Answer], _Names] = {}
        self._stacks: dict[StackAnswers, tuple[RecordedFrame, ...]] = {}
        self._texts: dict[str, bytes] = {}  # one object for each name, however many stacks have it

    def write(self, resolved: Resolved) -> bytes:
        """Add a sample; nothing is written yet."""
        sample = resolved.sample
        key = self._root(resolved), resolved.answers
        if key not in self._of_stack:
            if len(self._of_stack) >= _KEPT:
                self._add_up()
            self._stacks[resolved.answers] = sample.frames
        count = sample.origin if isinstance(sample.origin, Decimal) else sample.weights[-1]
        self._of_stack[key] = self._of_stack.get(key, 0) + count
        return b""

    def end(self) -> Iterator[bytes]:
        """Yield the lines."""
        self._add_up()
        for names, count in sorted(self._counts.items()):
            if count < 0:
                raise IcfError(f"collapsed stacks: a stack counts {count}", hint="write pprof, which has such counts")
            if count:
                yield b"%b %b\n" % (b";".join(names), f"{count:f}".encode() if count % 1 else b"%d" % count)

    def _add_up(self) -> None:
        """Add the counts of stacks of the same names."""
        for (root, answers), count in self._of_stack.items():
            key = (*root, *self._named(self._stacks[answers], answers))
            self._counts[key] = self._counts.get(key, 0) + count
        self._of_stack.clear()
        self._stacks.clear()

    def _named(self, frames: tuple[RecordedFrame, ...], answers: StackAnswers) -> Iterable[bytes]:
        names: list[bytes] = []
        for pair in zip(reversed(frames), reversed(answers), strict=True):
            known = self._names.get(pair)
            if known is None:
                if len(self._names) >= _KEPT:
                    self._names.clear()
                shown = self._namer.frame(*pair)
                known = self._names[pair] = tuple([self._text(each.name) for each in reversed(shown)])
            names += known
        return names or _NO_FRAMES

    def _root(self, resolved: Resolved) -> _Names:
        for label in resolved.sample.labels:
            if label.key == _PROCESS_LABEL and isinstance(label.value, str):
                return (self._text(label.value),)
        return ()

    def _text(self, name: str) -> bytes:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = name.translate(_REPLACED).encode("utf-8", "surrogateescape")
        return text
