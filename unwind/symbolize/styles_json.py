"""The JSON style of `icf symbolize`: llvm-symbolizer's fields, and further ones for folded functions.

    {"Address":"0x1146","ModuleName":"shop","Symbol":[{"Column":80,"Discriminator":0,"FileName":"fir.cc",
     "FunctionName":"fir::taps(int)","Line":3,"StartAddress":"0x1140","StartFileName":"","StartLine":0},...]}

On stdin each is a line; those of a command line are one array. A symcache does not know where functions are declared,
so `StartFileName` and `StartLine` are empty. Of folded functions `FunctionName` has all names (as in styles.py), and
there is more:

    "Candidates":[{"FunctionName":"List<Order>::grow()","LinkageName":"_ZN4ListI5OrderE4growEv"},...],"CandidatesComplete":true

With `--candidates` each has its own `"Symbol"`. `"CandidatesComplete":false` alone: one is known, there may be more.

This module builds the text itself: `json` takes longer to import than everything else for one address, and longer to
write a frame.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from unwind.symbolize.styles import Options, basename, joined, namer
from unwind.symcache.reader.symcache import MANY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unwind.program.frame import Frames
    from unwind.symbolize.answer import Answer
    from unwind.symbolize.many import Bulk, Style
    from unwind.symbolize.requests import Request
    from unwind.symbolize.symbolizer import Symbolizer

_NO_FRAME = (
    '{"Column":0,"Discriminator":0,"FileName":"","FunctionName":"","Line":0,"StartAddress":"","StartFileName":"",'
    '"StartLine":0}'
)


class JsonWriter:
    """A line for each address."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._bulk: Bulk | None = None
        self._name = namer(options)
        self._path = basename if options.basenames else str

    def address(self, found: Answer, address: int, image: str) -> str:
        text = f'"Address":"{address:#x}","ModuleName":{_quoted(image)},"Symbol":{self._symbol(found)}'
        if found.candidates:
            candidates = [self._candidate(found, idx) for idx in range(len(found.candidates))]
            text = f'{text},"Candidates":{_listed(candidates)}'
        if found.candidates or not found.is_complete:
            text = f"{text},{_completeness(found.is_complete)}"
        return self._line(f"{{{text}}}")

    def addresses(
        self, symbolizer: Symbolizer, vaddrs: Sequence[int], asked: Sequence[int], image: str
    ) -> Iterator[str]:
        if not self._options.pretty and len(vaddrs) >= MANY:
            from unwind.symbolize.many import Bulk

            self._bulk = self._bulk or Bulk()
            if texts := self._bulk.of(symbolizer, image, self.style):
                return texts.write(vaddrs, asked)
        return map(self.address, symbolizer.symbolize_many(vaddrs), asked, repeat(image))

    def style(self, image: str) -> Style:
        from unwind.symbolize import many, marks
        from unwind.symcache.reader.columns import AGREED, EACH

        options = self._options
        frame, last = (
            self._frame(many.NAME, many.FILE, many.LINE, many.COLUMN, start)
            .replace(_quoted(many.NAME), f'"{many.NAME}"')
            .replace(_quoted(many.FILE), f'"{many.FILE}"')
            for start in ("", many.START)
        )

        def text_of(name: str) -> str:
            return _quoted(self._name(name) if name and options.functions != "none" else "")[1:-1]

        def several(names: list[str], is_complete: bool) -> list[str]:
            own_name = joined(names, is_complete, self._name) if options.functions != "none" else ""
            end = f"],{_completeness(is_complete)}}}\n"
            around = [_quoted(own_name)[1:-1], before, '],"Candidates":[']
            each = [*map(self._names, names)]
            if not options.candidates:
                around[-1] += ",".join([f"{{{text}}}" for text in each]) + end
                return around
            for idx, text in enumerate(each):
                around += [f'{"," if idx else ""}{{{text},"Symbol":[', "]}"]
            around[-1] += end
            return around

        before = f'","ModuleName":{_quoted(image)},"Symbol":['
        return many.Style(
            head=f'{{"Address":"{many.ADDRESS}',
            frames=(last, frame, f",{frame}", f",{last}"),
            shown=marks.ALL if options.inlines else marks.OWN,
            wanted=AGREED | EACH if options.candidates else AGREED,
            name=text_of,
            path=lambda path: _quoted(self._path(path))[1:-1],
            nothing=f"{before}{_NO_FRAME}]}}\n",
            one=(before, "]}\n"),
            one_or_more=(before, f"],{_completeness(False)}}}\n"),
            several=several,
        )

    def function(self, found: Sequence[Answer], symbol: str, image: str) -> str:
        places = [place for each in found for place in self._places(each)]
        return self._line(f'{{"Loc":{_listed(places)},"ModuleName":{_quoted(image)},"SymName":{_quoted(symbol)}}}')

    def failed(self, image: str) -> str:
        return self._line(f'{{"ModuleName":{_quoted(image)},"Symbol":[{_NO_FRAME}]}}')

    def refused(self, request: Request, image: str, problem: str) -> str:
        said = f'"Error":{{"Message":{_quoted(problem)}}},"ModuleName":{_quoted(image)}'
        if request.address is not None:
            return self._line(f'{{"Address":"{request.address:#x}",{said}}}')
        return self._line(f'{{{said},"SymName":{_quoted(request.symbol)}}}')

    def together(self, answers: Sequence[str]) -> str:
        between = "\n" if self._options.pretty else ","  # there may be several answers in one text, a line each
        return self._line(_listed([answer.rstrip("\n").replace("\n", between) for answer in answers]))

    def _line(self, text: str) -> str:
        if self._options.pretty:
            import json

            text = json.dumps(json.loads(text), indent=2)
        return f"{text}\n"

    def _symbol(self, found: Answer) -> str:
        return _listed(self._places(found))

    def _places(self, found: Answer) -> list[str]:
        if not found.frames:
            return [_NO_FRAME]
        names = [each.linkage_name for each in found.candidates]
        own_name = joined(names, found.is_complete, self._name) if names else ""
        return self._frames(found.frames, found.start, own_name)

    def _candidate(self, found: Answer, idx: int) -> str:
        each = found.candidates[idx]
        text = self._names(each.linkage_name)
        if self._options.candidates:
            text = f'{text},"Symbol":{_listed(self._frames(each.frames, found.start, ""))}'
        return f"{{{text}}}"

    def _names(self, linkage_name: str) -> str:
        return f'"FunctionName":{_quoted(self._name(linkage_name))},"LinkageName":{_quoted(linkage_name)}'

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

    def _frame(self, name: str, file: str, line: int | str, column: int | str, start: str) -> str:
        shown = name if self._options.functions != "none" else ""
        return (
            f'{{"Column":{column},"Discriminator":0,"FileName":{_quoted(self._path(file))},'
            f'"FunctionName":{_quoted(shown)},"Line":{line},"StartAddress":"{start}","StartFileName":"","StartLine":0}}'
        )


def _completeness(is_complete: bool) -> str:
    return f'"CandidatesComplete":{"true" if is_complete else "false"}'


def _listed(texts: Sequence[str]) -> str:
    return f"[{','.join(texts)}]"


def _quoted(text: str) -> str:
    """Return a text as JSON has it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json

    return json.dumps(text)
