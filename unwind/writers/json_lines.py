"""Write resolved stacks as JSON: one object a line for each stack, in order.

    {"frames":[{"address":"0x401136","verdict":"unique","name":"f(int)","linkage_name":"_Z1fi","candidates":[],
     "candidate_names":[],"file":"a.cc","line":12,"column":7,"inlines":[],"evidence":"relocation","reason":null},...],
     "weight":1}

`name` and `linkage_name` are null unless the verdict is `unmerged` or `unique`; `candidates` lists the linkage
names still possible otherwise, and `candidate_names` the same functions demangled, in the same order; where
`--max-candidates` has left some out, `more_candidates` is how many. If the frame may be a function that no table
names, there is `"candidates_complete":false`. `file`, `line` and `column` are a place in that very function, and null
where they are not certain; `inlines` are the functions inlined
there, innermost first, with `name`, `linkage_name`, `file`, `line` and `column` of their own. `address` is null for a
frame outside of the image. `aliases`, where there are some, are further symbols of the function that `name` says. With
`icf resolve --modules` each frame has `"module"`, the path of its image, or null.

`reason` is null, or what keeps the frame from having one name: a code (`unwind.symbolize.reasons.ReasonCode`), with
`"reason_text"` for people, and `"reason_address"` where it is about an address: that of the call, or of the body.

There is a frame for each address. Where tail calls have left frames out between one and its caller, it has
`"missing"`, a list of such objects, innermost first, whose `address` is that of the jump, or null if it was one of
several. A sample of a recording also has `"values"`, its weights by what they count (`"cpu/nanoseconds"`), `"labels"`
and `"time_ns"`, where the recording has them, and an unknown frame has the name in the recording as `"recorded_name"`.
With `icf resolve --explain` each frame has `"explain"`, a list of facts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from icf.demangle import demangle
from unwind.program.frame import Frame
from unwind.resolve.answer import Facts
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import Recording, Value
from unwind.symbolize.answer import Answer
from unwind.writers.kept import KeptTexts
from unwind.writers.named import Namer

_KEPT_BYTES = 1 << 28  # of frames: one that can be thousands of functions has a text of 200 KB
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_NO_FRAME = Frame("", "", 0, 0, False)


def open_writer(recording: Recording, namer: Namer) -> JsonWriter:
    """Return the writer of the samples of a recording."""
    values = [f"{each.name}/{each.unit}" for each in recording.values if recording.values != (Value(),)]
    return JsonWriter(
        with_modules=True, with_lines=namer.with_lines, values=values, max_candidates=namer.max_candidates
    )


class JsonWriter:
    """Turns answers into lines; without `with_lines` it leaves out files, lines and inlined functions.

    Of the functions that a frame can be it lists the first `max_candidates`, or all.
    """

    def __init__(
        self,
        *,
        with_modules: bool = False,
        with_lines: bool = True,
        values: Sequence[str] = (),
        max_candidates: int | None = None,
    ) -> None:
        self._with_modules, self._with_lines, self._max_candidates = with_modules, with_lines, max_candidates
        self._values = values  # what the weights of samples count
        self._frames = KeptTexts[Answer, str](_KEPT_BYTES)

    def write(self, resolved: Resolved) -> bytes:
        """Return the object of a sample."""
        return self._sample(resolved, None)

    def write_explained(self, resolved: Resolved, facts: Facts) -> bytes:
        """Return the object of a sample, with the facts that explain its frames."""
        return self._sample(resolved, facts)

    def _sample(self, resolved: Resolved, facts: Facts | None) -> bytes:
        sample = resolved.sample
        more: dict[str, object] = {}
        if self._values and sample.weights:
            more["values"] = dict(zip(self._values, sample.weights, strict=True))
        if sample.labels:
            more["labels"] = {label.key: label.value for label in sample.labels}
        if sample.time_ns:
            more["time_ns"] = sample.time_ns
        line = self.line(sample.weights[0], resolved.answers, facts)
        if more:
            line = f"{line[:-2]},{_encode(more)[1:]}\n"
        return line.encode("utf-8", "surrogateescape")

    def end(self) -> Iterator[bytes]:
        """Yield nothing: every sample is written by itself."""
        yield from ()

    def line(self, weight: int, answers: tuple[Answer, ...], facts: Facts | None = None) -> str:
        """Return the object of a stack, with its newline; `facts` explain its frames."""
        if facts is not None:
            left = iter(facts)
            frames = ",".join([self._frame(answer, left) for answer in answers])
            return f'{{"frames":[{frames}],"weight":{weight}}}\n'
        known = self._frames
        try:
            frames = ",".join([known[answer] for answer in answers])
        except KeyError:
            frames = ",".join([known.get(answer) or known.keep(answer, self._frame(answer)) for answer in answers])
        return f'{{"frames":[{frames}],"weight":{weight}}}\n'

    def _frame(self, answer: Answer, facts: Iterator[list[str]] | None = None) -> str:
        return _encode(self._object(answer, facts))

    def _object(self, answer: Answer, facts: Iterator[list[str]] | None) -> dict[str, object]:
        """Return a frame; remove from `facts` those of itself and of the frames that tail calls left out above it."""
        *inlined, own = answer.frames if self._with_lines and answer.is_named else (_NO_FRAME,)
        listed = answer.linkage_names[: self._max_candidates]
        frame: dict[str, object] = {
            "address": None if answer.address is None else f"{answer.address:#x}",
            "verdict": answer.verdict.value,
            "name": answer.name,
            "linkage_name": answer.linkage_name,
            "candidates": listed,
            "candidate_names": [demangle(name) for name in listed],
            **_place(own),
            "inlines": [
                {"name": demangle(each.linkage_name), "linkage_name": each.linkage_name, **_place(each)}
                for each in inlined
            ],
            "evidence": answer.evidence,
            "reason": None,
        }
        if len(listed) < len(answer.linkage_names):
            frame["more_candidates"] = len(answer.linkage_names) - len(listed)
        if not answer.is_complete:
            frame["candidates_complete"] = False
        if answer.reason is not None:
            frame["reason"], frame["reason_text"] = answer.reason.code.value, str(answer.reason)
            if answer.reason.address is not None:
                frame["reason_address"] = f"{answer.reason.address:#x}"
        if answer.recorded_name:
            frame["recorded_name"] = answer.recorded_name
        if answer.aliases:
            frame["aliases"] = answer.aliases
        if self._with_modules:
            frame["module"] = answer.module or None
        if facts is not None:
            frame["explain"] = next(facts)
        if answer.missing:
            frame["missing"] = [self._object(missing, facts) for missing in answer.missing]
        return frame


def _place(frame: Frame) -> dict[str, object]:
    return {"file": frame.file or None, "line": frame.line or None, "column": frame.column or None}
