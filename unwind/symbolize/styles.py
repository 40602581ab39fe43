"""The text styles of `icf symbolize`: as addr2line writes, or as llvm-symbolizer.

              of a known address         of an unknown one    of a function without lines
    addr2line          fir::taps(int)    ??                   _start
                       src/fir.cc:12     ??:0                 ??:?
    llvm               fir::taps(int)    ??                   _start
                       src/fir.cc:12:7   ??:0:0               ??:0:0
                       (empty line)
    llvm, GNU          fir::taps(int)    ??                   _start
                       src/fir.cc:12     ??:0                 ??:0

and `--pretty-print`ed `fir::taps(int) at src/fir.cc:12`, then ` (inlined by) main at src/main.cc:40`.

Scripts expect one name and one line, and a folded function has several of each. The name is then all of them,
`List<Order>::grow() | List<Payment>::grow()`, or the first four and how many more there are; ` | ?` if there may be
others. Line and inlined functions are those that all of them have in common, else unknown. With `--candidates` each
has its own lines, below a line with its number among them. On a terminal names and paths are escaped; a program
that reads them gets them as they are.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from icf.demangle import demangle, short_name
from icf.printable import printable
from unwind.symcache.reader.symcache import MANY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unwind.program.frame import Frames
    from unwind.symbolize.answer import Answer
    from unwind.symbolize.many import Bulk, Style
    from unwind.symbolize.requests import Request
    from unwind.symbolize.symbolizer import Symbolizer

_SHOWN = 4
_KEPT_NAMES = 1 << 16


class Options(NamedTuple):
    """What to write of an address."""

    form: str = "llvm"  # or addr2line, llvm-gnu, json
    functions: str = "linkage"  # or short, none
    inlines: bool = True
    demangle: bool = True
    pretty: bool = False
    addresses: bool = False
    basenames: bool = False
    candidates: bool = False
    escaped: bool = False  # for a terminal


class TextWriter:
    """Lines for each address."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._bulk: Bulk | None = None
        self._name = namer(options)
        self._link = " (inlined by) " if options.pretty and options.functions != "none" else ""
        self._is_addr2line, self._has_columns = options.form == "addr2line", options.form == "llvm"
        self._end = "\n" if self._has_columns else ""

    def address(self, found: Answer, address: int, image: str) -> str:
        options = self._options
        head = self._head(address, "\n" if options.candidates and found.candidates else ": ")
        return f"{head}{self._found(found)}{self._end}"

    def _head(self, address: int, before_a_line: str) -> str:
        if not self._options.addresses:
            return ""
        text = f"0x{address:016x}" if self._is_addr2line else f"{address:#x}"
        return text + (before_a_line if self._options.pretty else "\n")

    def addresses(
        self, symbolizer: Symbolizer, vaddrs: Sequence[int], asked: Sequence[int], image: str
    ) -> Iterator[str]:
        if len(vaddrs) >= MANY:
            from unwind.symbolize.many import Bulk

            self._bulk = self._bulk or Bulk()
            if texts := self._bulk.of(symbolizer, image, self.style):
                return texts.write(vaddrs, asked)
        return map(self.address, symbolizer.symbolize_many(vaddrs), asked, repeat(image))

    def style(self, image: str) -> Style:
        from unwind.symbolize import many, marks
        from unwind.symcache.reader.columns import AGREED, EACH

        options = self._options
        frame = self._text(many.NAME, many.FILE, many.LINE_OR_MARK if self._is_addr2line else many.LINE, many.COLUMN)
        further = self._link + frame
        shown = marks.ALL if options.inlines else marks.OWN if self._has_columns else marks.INNERMOST
        head = (many.LONG_ADDRESS if self._is_addr2line else many.ADDRESS) if options.addresses else ""
        before = (": " if options.pretty else "\n") if options.addresses else ""

        def several(names: list[str], is_complete: bool) -> list[str]:
            if not options.candidates:
                return [joined(names, is_complete, self._name), before, self._end]
            around = [text for number in _numbers(len(names), is_complete) for text in (number, "")]
            around[0] = ("\n" if options.addresses else "") + around[0]
            around[-1] = self._end
            return ["", *around]

        return many.Style(
            head=head,
            frames=(frame, frame, further, further),
            shown=shown,
            wanted=EACH if options.candidates else AGREED,
            name=self._name,
            path=self._path,
            nothing=before + self._unknown() + self._end,
            one=(before, self._end),
            one_or_more=(before, self._end),
            several=several,
        )

    def function(self, found: Sequence[Answer], symbol: str, image: str) -> str:
        return "".join(map(self._found, found)) + self._end if found else self.failed(image)

    def failed(self, image: str) -> str:
        return self._unknown() + self._end

    def refused(self, request: Request, image: str, problem: str) -> str:
        head = "" if request.address is None else self._head(request.address, ": ")
        return head + self.failed(image)

    def together(self, answers: Sequence[str]) -> str:
        return "".join(answers)

    def _found(self, found: Answer) -> str:
        if not found.frames:
            return self._unknown()
        if not found.candidates:
            return self._frames(found.frames, "")
        if not self._options.candidates:
            names = [each.linkage_name for each in found.candidates]
            return self._frames(found.frames, joined(names, found.is_complete, self._name))
        numbers = _numbers(len(found.candidates), found.is_complete)
        each_in_full = [self._frames(each.frames, "") for each in found.candidates]
        return "".join([number + text for number, text in zip(numbers, each_in_full, strict=True)])

    def _frames(self, frames: Frames, own_name: str) -> str:
        """Return the frames as lines; `own_name` replaces the name of the last, if it is not empty."""
        names = [frame[0] for frame in frames]
        if own_name:
            names = [*map(self._name, names[:-1]), own_name]
        else:
            names = [*map(self._name, names)]
        if not self._options.inlines:
            # in llvm's own form that function which has the code, in the others the innermost
            _, file, line, column, *_ = frames[0]
            return self._text(names[-1 if self._has_columns else 0], self._path(file), line, column)
        places = [(self._path(file), line, column) for _, file, line, column, *_ in frames]
        return self._link.join([self._text(name, *place) for name, place in zip(names, places, strict=True)])

    def _text(self, name: str, path: str, line: int | str, column: int | str) -> str:
        """Return the text of one frame."""
        if self._has_columns:
            place = f"{path}:{line}:{column}\n"
        else:
            place = f"{path}:{line or ('?' if self._is_addr2line else 0)}\n"
        if self._options.functions == "none":
            return place
        return f"{name} at {place}" if self._options.pretty else f"{name}\n{place}"

    def _path(self, file: str) -> str:
        path = (basename(file) if self._options.basenames else file) or "??"
        return printable(path) if self._options.escaped else path

    def _unknown(self) -> str:
        place = "??:0:0\n" if self._has_columns else "??:0\n"
        if self._options.functions == "none":
            return place
        if not self._options.pretty:
            return f"??\n{place}"
        return f"?? {place}" if self._is_addr2line else f"?? at {place}"


def namer(options: Options) -> Callable[[str], str]:
    """Return a function that maps a linkage name to the name to write; `??` for none."""

    return _Names(options).__getitem__


class _Names(dict[str, str]):
    """The names to write, by linkage name."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __missing__(self, linkage_name: str) -> str:
        if len(self) >= _KEPT_NAMES:
            self.clear()
        text = linkage_name
        if self._options.functions == "short":
            text = short_name(linkage_name)
        elif self._options.demangle:
            text = demangle(linkage_name)
        if self._options.escaped:
            text = printable(text)
        self[linkage_name] = text = text or "??"
        return text


def _numbers(count: int, is_complete: bool) -> list[str]:
    """Return the line above each candidate."""
    return [f"candidate {idx} of {count}{'' if is_complete else ' or more'}:\n" for idx in range(1, count + 1)]


def joined(linkage_names: Sequence[str], is_complete: bool, name: Callable[[str], str]) -> str:
    """Return the names that a folded function may have, as one text."""
    names = list(dict.fromkeys(map(name, linkage_names)))
    shown = names if len(names) <= _SHOWN + 1 else [*names[:_SHOWN], f"{len(names) - _SHOWN} more"]
    return " | ".join(shown if is_complete else [*shown, "?"])


def basename(path: str) -> str:
    """Return a path without its directories."""
    return path.rpartition("/")[2]
