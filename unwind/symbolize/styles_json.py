"""How `icf symbolize` writes what it finds, as JSON: what llvm-symbolizer writes, and what that cannot say.

    {"Address":"0x1146","ModuleName":"shop","Symbol":[{"Column":80,"Discriminator":0,"FileName":"fir.cc",
     "FunctionName":"fir::taps(int)","Line":3,"StartAddress":"0x1140","StartFileName":"","StartLine":0},...]}

On stdin each is a line; those of a command line are one array. A symcache does not know where functions are declared,
so `StartFileName` and `StartLine` are empty. Of folded functions `FunctionName` has all names (as in styles.py), and
there is more:

    "Candidates":[{"FunctionName":"List<Order>::grow()","LinkageName":"_ZN4ListI5OrderE4growEv"},...],"CandidatesComplete":true

With `--candidates` each has its own `"Symbol"`. `"CandidatesComplete":false` alone: one is known, there may be more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from unwind.symbolize.styles import Options, basename, joined, namer

if TYPE_CHECKING:
    from unwind.symbolize.symbolizer import Frames, Symbolizer
    from unwind.symbolize.writers import Found

_Object = dict[str, Any]


class JsonWriter:
    """A line for each address."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._name = namer(options)
        self._path = basename if options.basenames else str
        self._encoder = json.JSONEncoder(indent=2) if options.pretty else json.JSONEncoder(separators=(",", ":"))

    def address(self, found: Found, address: int, image: str) -> str:
        answer: _Object = {"Address": f"{address:#x}", "ModuleName": image, "Symbol": self._symbol(found)}
        if found.candidates:
            answer["Candidates"] = [self._candidate(found, idx) for idx in range(len(found.candidates))]
        if found.candidates or not found.is_complete:
            answer["CandidatesComplete"] = found.is_complete
        return self._line(answer)

    def addresses(
        self, symbolizer: Symbolizer, vaddrs: Sequence[int], asked: Sequence[int], image: str
    ) -> Iterator[str]:
        return map(self.address, symbolizer.symbolize_many(vaddrs), asked, repeat(image))

    def function(self, found: Sequence[Found], symbol: str, image: str) -> str:
        places = [place for each in found for place in self._symbol(each)]
        return self._line({"Loc": places, "ModuleName": image, "SymName": symbol})

    def failed(self, image: str) -> str:
        return self._line({"ModuleName": image, "Symbol": [self._frame("", "", 0, 0, "")]})

    def together(self, answers: Sequence[str]) -> str:
        return self._line([json.loads(answer) for answer in answers])

    def _line(self, answer: object) -> str:
        return self._encoder.encode(answer) + "\n"

    def _symbol(self, found: Found) -> list[_Object]:
        if not found.frames:
            return [self._frame("", "", 0, 0, "")]
        return self._frames(found.frames, found.start, joined(found, self._name))

    def _candidate(self, found: Found, idx: int) -> _Object:
        each = found.candidates[idx]
        answer: _Object = {"FunctionName": self._name(each.linkage_name), "LinkageName": each.linkage_name}
        if self._options.candidates:
            answer["Symbol"] = self._frames(each.frames, found.start, "")
        return answer

    def _frames(self, frames: Frames, start: int, own_name: str) -> list[_Object]:
        last = len(frames) - 1
        names = [self._name(frame.linkage_name) if frame.linkage_name else "" for frame in frames]
        if own_name:
            names[-1] = own_name
        if not self._options.inlines:
            file, line, column = frames[0][1:4]
            return [self._frame(names[-1], file, line, column, hex(start))]
        return [
            self._frame(name, frame.file, frame.line, frame.column, hex(start) if idx == last else "")
            for idx, (name, frame) in enumerate(zip(names, frames, strict=True))
        ]

    def _frame(self, name: str, file: str, line: int, column: int, start: str) -> _Object:
        return {
            "Column": column,
            "Discriminator": 0,
            "FileName": self._path(file),
            "FunctionName": name if self._options.functions != "none" else "",
            "Line": line,
            "StartAddress": start,
            "StartFileName": "",
            "StartLine": 0,
        }
