"""Write resolved samples as `perf script` does: stackcollapse-perf.pl, speedscope and the Firefox Profiler read that.

    shop 4242/4243 [001] 25981.991483:   10101010 cpu-clock:
                55d2c0a01136 copy (inlined)
                55d2c0a01136 List<Order>::grow()+0x26 (/usr/bin/shop)
                           0 Ledger::post(Payment*) (/usr/bin/shop)                a tail call left it out: no address
                55d2c0a0114a main+0x1a (/usr/bin/shop)

Addresses are those of the recording. The number before the event is the sample's last weight that counts. Those readers
take the part in parentheses up to a space, so a path with spaces is written with `_` for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

import numpy as np

from icf.printable import printable
from unwind.resolve.resolved import AnsweredTree, Resolved
from unwind.samples.recording import Label, RecordedFrame, RecordedProcess, Recording, Sample
from unwind.symbolize.answer import Answer
from unwind.writers.named import NamedFrame, Namer
from unwind.writers.stack_texts import StackTexts

_KEPT = 1 << 18
_KEPT_TREES = 4  # a reader has one at a time, the resolver one of its own
_LINE = str.maketrans({"\n": " ", "\r": " "})
_PATH = str.maketrans(dict.fromkeys(" \t\n\r()", "_"))


def open_writer(recording: Recording, namer: Namer) -> PerfScriptWriter:
    """Return what writes samples as text of `perf script`."""
    return PerfScriptWriter(namer, recording.values[0].name)


class PerfScriptWriter:
    """Writes each sample as it comes."""

    def __init__(self, namer: Namer, event: str) -> None:
        self._namer, self._event = namer, event
        self._frames: dict[tuple[RecordedFrame, Answer], bytes] = {}
        self._of_trees: dict[AnsweredTree, StackTexts] = {}
        self._heads: dict[tuple[RecordedProcess, tuple[Label, ...]], tuple[str, str]] = {}

    def write(self, resolved: Resolved) -> bytes:
        """Return the lines of a sample, with an empty one at the end."""
        known = self._frames
        if len(known) >= _KEPT:
            known.clear()
        lines = [self._head(resolved.sample)]
        for pair in zip(resolved.sample.frames, resolved.answers, strict=True):
            text = known.get(pair)
            if text is None:
                text = known[pair] = self._lines(*pair)
            lines.append(text)
        return b"".join([*lines, b"\n"])

    def write_batch(self, batch: Sequence[Resolved]) -> Iterator[bytes]:
        """Yield the lines of samples."""
        for tree, of_tree in groupby(batch, lambda resolved: resolved.answers.tree):
            if tree is None:
                yield from map(self.write, of_tree)
                continue
            if tree not in self._of_trees:
                if len(self._of_trees) >= _KEPT_TREES:
                    self._of_trees.clear()
                self._of_trees[tree] = StackTexts(tree, 0, partial(self._texts, tree.frames, tree.answers))
            together = list(of_tree)
            nodes = np.array([resolved.answers.node for resolved in together], np.uint64)
            yield from self._of_trees[tree].write(nodes, [self._head(resolved.sample) for resolved in together])

    def _texts(self, frames: Sequence[RecordedFrame], answers: Sequence[Answer], state: int) -> tuple[bytes, bytes]:
        return b"", self._lines(frames[state], answers[state])

    def _lines(self, frame: RecordedFrame, answer: Answer) -> bytes:
        text = "".join([_line(shown, answer) for shown in self._namer.frame(frame, answer)])
        return text.encode("utf-8", "surrogateescape")

    def end(self) -> Iterator[bytes]:
        """Yield nothing: each sample was written."""
        return iter(())

    def _head(self, sample: Sample) -> bytes:
        key = sample.process, sample.labels
        known = self._heads.get(key)
        if known is None:
            if len(self._heads) >= _KEPT:
                self._heads.clear()
            known = self._heads[key] = self._words(sample)
        source, event = known
        when = f" {sample.time_ns // 10**9}.{sample.time_ns % 10**9 // 1000:06}:" if sample.time_ns else ""
        weight = next((each for each in reversed(sample.weights) if each), 0)
        return f"{source}{when} {weight:10} {event}:\n".encode("utf-8", "surrogateescape")

    def _words(self, sample: Sample) -> tuple[str, str]:
        """Return where samples are from, and of which event."""
        labels = {label.key: label.value for label in sample.labels}
        pid = labels.get("pid", sample.process.pid)
        cpu = labels.get("cpu")
        where = f" [{cpu:03}]" if isinstance(cpu, int) else ""
        comm = printable(str(labels.get("comm") or "[unknown]").translate(_LINE))
        event = printable(str(labels.get("event", self._event)).translate(_PATH))
        return f"{comm} {pid}/{labels.get('tid', pid)}{where}", event


def _line(shown: NamedFrame, answer: Answer) -> str:
    name, place = printable(shown.name.translate(_LINE)), printable(shown.module.translate(_PATH)) or "[unknown]"
    if shown.is_inlined:
        place = "inlined"
    elif shown.address is not None and 0 <= shown.address - answer.start < answer.size_bytes:
        name = f"{name}+{shown.address - answer.start:#x}"
    return f"\t{shown.address or 0:16x} {name} ({place})\n"
