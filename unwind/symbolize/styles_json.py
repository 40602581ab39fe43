"""How `icf symbolize` writes what it finds, as JSON: what llvm-symbolizer writes, and what that cannot say.

    {"Address":"0x1146","ModuleName":"shop","Symbol":[{"Column":80,"Discriminator":0,"FileName":"fir.cc",
     "FunctionName":"fir::taps(int)","Line":3,"StartAddress":"0x1140","StartFileName":"","StartLine":0},...]}

On stdin each is a line; those of a command line are one array. A symcache does not know where functions are declared,
so `StartFileName` and `StartLine` are empty. Of folded functions `FunctionName` has all names (as in styles.py), and
there is more:

    "Candidates":[{"FunctionName":"List<Order>::grow()","LinkageName":"_ZN4ListI5OrderE4growEv"},...],"CandidatesComplete":true

With `--candidates` each has its own `"Symbol"`. `"CandidatesComplete":false` alone: one is known, there may be more.

The text is put together here: `json` takes longer to import than all else that answers one address, and longer to
write a frame.
"""

from __future__ import annotations

from itertools import repeat

from icf.typed import TYPE_CHECKING
from unwind.symbolize.styles import Options, basename, joined, namer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unwind.symbolize.symbolizer import Frames, Symbolizer
    from unwind.symbolize.writers import Found

_NO_FRAME = (
    '{"Column":0,"Discriminator":0,"FileName":"","FunctionName":"","Line":0,"StartAddress":"","StartFileName":"",'
    '"StartLine":0}'
)


class JsonWriter:
    """A line for each address."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._name = namer(options)
        self._path = basename if options.basenames else str

    def address(self, found: Found, address: int, image: str) -> str:
        text = f'"Address":"{address:#x}","ModuleName":{_quoted(image)},"Symbol":{self._symbol(found)}'
        if found.candidates:
            candidates = [self._candidate(found, idx) for idx in range(len(found.candidates))]
            text = f'{text},"Candidates":{_listed(candidates)}'
        if found.candidates or not found.is_complete:
            text = f'{text},"CandidatesComplete":{"true" if found.is_complete else "false"}'
        return self._line(f"{{{text}}}")

    def addresses(
        self, symbolizer: Symbolizer, vaddrs: Sequence[int], asked: Sequence[int], image: str
    ) -> Iterator[str]:
        return map(self.address, symbolizer.symbolize_many(vaddrs), asked, repeat(image))

    def function(self, found: Sequence[Found], symbol: str, image: str) -> str:
        places = [place for each in found for place in self._places(each)]
        return self._line(f'{{"Loc":{_listed(places)},"ModuleName":{_quoted(image)},"SymName":{_quoted(symbol)}}}')

    def failed(self, image: str) -> str:
        return self._line(f'{{"ModuleName":{_quoted(image)},"Symbol":[{_NO_FRAME}]}}')

    def together(self, answers: Sequence[str]) -> str:
        return self._line(_listed([answer.rstrip("\n") for answer in answers]))

    def _line(self, text: str) -> str:
        if self._options.pretty:
            import json

            text = json.dumps(json.loads(text), indent=2)
        return f"{text}\n"

    def _symbol(self, found: Found) -> str:
        return _listed(self._places(found))

    def _places(self, found: Found) -> list[str]:
        if not found.frames:
            return [_NO_FRAME]
        return self._frames(found.frames, found.start, joined(found, self._name))

    def _candidate(self, found: Found, idx: int) -> str:
        each = found.candidates[idx]
        name = self._name(each.linkage_name)
        text = f'"FunctionName":{_quoted(name)},"LinkageName":{_quoted(each.linkage_name)}'
        if self._options.candidates:
            text = f'{text},"Symbol":{_listed(self._frames(each.frames, found.start, ""))}'
        return f"{{{text}}}"

    def _frames(self, frames: Frames, start: int, own_name: str) -> list[str]:
        last = len(frames) - 1
        names = [self._name(frame[0]) if frame[0] else "" for frame in frames]
        if own_name:
            names[-1] = own_name
        if not self._options.inlines:
            return [self._frame(names[-1], *frames[0][1:4], hex(start))]
        return [
            self._frame(name, *frame[1:4], hex(start) if idx == last else "")
            for idx, (name, frame) in enumerate(zip(names, frames, strict=True))
        ]

    def _frame(self, name: str, file: str, line: int, column: int, start: str) -> str:
        shown = name if self._options.functions != "none" else ""
        return (
            f'{{"Column":{column},"Discriminator":0,"FileName":{_quoted(self._path(file))},'
            f'"FunctionName":{_quoted(shown)},"Line":{line},"StartAddress":"{start}","StartFileName":"","StartLine":0}}'
        )


def _listed(texts: Sequence[str]) -> str:
    return f"[{','.join(texts)}]"


def _quoted(text: str) -> str:
    """A text as JSON has it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json

    return json.dumps(text)
