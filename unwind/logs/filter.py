"""Rewrite the names in the stacks of a log, and pass all else through byte for byte.

    ./server 2>&1 | icf resolve --format log

A line that shows no frame is written as soon as it is there. The lines of a stack are held until the stack ends, at a
line that shows no frame, or when nothing more comes for a moment: which function a frame is depends on its callers.
A frame of which no more is known than its line has keeps that line as it is.

    text ──> lines with a mark ──> frame lines ──> stack ──> sample ──> answers ──> lines with other names
             unwind.logs.marks     readers                   unwind.target          unwind.logs.rewrite
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import BinaryIO, NamedTuple

from icf.errors import IcfError
from icf.log import warn
from icf.model import Verdict
from unwind.logs.forms import FORMS, Form
from unwind.logs.lines import QUIET, whole_lines
from unwind.logs.marks import Marks
from unwind.logs.resolver import StackResolver
from unwind.logs.rewrite import HeldLine, Replaced, is_certain, rewrite
from unwind.logs.summary import NewName, Summary, new_names
from unwind.readers import sanitizer
from unwind.readers.frame_line import FrameLine
from unwind.readers.module_places import ModulePlaces
from unwind.readers.text_stacks import Samples, TextStack
from unwind.target.given_places import is_placed
from unwind.writers.named import Namer

_KEPT_LINES = 1 << 14
_KEPT_LINE_BYTES = 1 << 11
_KEPT_STACK_BYTES = 1 << 24
_Parsed = tuple[FrameLine, Form] | None
_Key = tuple[tuple[bytes, ...], tuple[object, ...], int]  # the lines of a stack, what is known of places, the shift


class Filtered(NamedTuple):
    """What a filter has met."""

    stacks: int
    unplaced: int  # of them, of which no frame is in a module; those that come again are not counted
    is_any_known: bool  # any frame


class _Rewritten(NamedTuple):
    """The text of a stack, how far the numbers after it are shifted, and what the summary of its report says now."""

    text: bytes
    shift: int = 0
    names: tuple[NewName, ...] = ()


def filter_log(
    stream: BinaryIO,
    out: BinaryIO,
    resolver: StackResolver,
    namer: Namer,
    places: ModulePlaces | None = None,
    note: Callable[[bytes], bytes] | None = None,
    *,
    keeps: bool = True,
    says_losses: bool = True,
) -> Filtered:
    """Copy `stream` to `out` with right names in its stacks; return what it had.

    `places` are modules whose place in the process is known, beside those that the log shows. `note` changes all text
    but the stacks. `keeps`: the same stack means the same later on, which it does not where a process runs.
    `says_losses`: stacks may lack frames as their dialect says, else as the resolver has it.
    """
    log = LogFilter(out, resolver, namer, places or ModulePlaces(), note, keeps=keeps, says_losses=says_losses)
    for text, is_lines in whole_lines(stream):
        if text is QUIET:
            log.end_stack()
        elif is_lines:
            log.take(text)
        else:
            log.end_stack()
            out.write(text)
        out.flush()
    log.end_stack()
    out.flush()
    return Filtered(log.stack_count, log.unplaced_count, log.is_any_known)


class LogFilter:
    """The filter between two pieces of a text."""

    def __init__(
        self,
        out: BinaryIO,
        resolver: StackResolver,
        namer: Namer,
        places: ModulePlaces,
        note: Callable[[bytes], bytes] | None = None,
        *,
        keeps: bool = True,
        says_losses: bool = True,
    ) -> None:
        self._out, self._resolver, self._namer, self._note = out, resolver, namer, note
        self._samples = Samples(places, says_losses=says_losses)
        self._summary = Summary()
        self._stack: TextStack | None = None
        self._form = FORMS[0]  # of the stack
        self._held: list[HeldLine] = []
        self._shift = 0  # of the numbers of frames, where a stack that was cut goes on
        self._next_number = 0  # of the frame that would go on it
        self._parsed: dict[tuple[bytes, Form | None], _Parsed] = {}
        self._warned: set[str] = set()
        self._kept: dict[_Key, _Rewritten] = {}
        self._kept_bytes = 0
        self._keeps = keeps
        self.is_any_known = False
        self.stack_count = self.unplaced_count = 0

    def take(self, text: bytes) -> None:
        """Take whole lines."""
        marks = Marks(text)
        at = 0
        while at < len(text):
            if self._stack is None:
                start = marks.next_line(at)
                if start > at:
                    self._shift = self._next_number = 0
                    self._pass(text[at:start])
                    at = start
                    continue
            end = text.find(b"\n", at) + 1 or len(text)
            self._line(text[at:end])
            at = end

    def end_stack(self) -> None:
        """Write the stack that is held: no more lines of it come."""
        if self._stack is None:
            return
        stack, held = self._stack, self._held
        self._stack, self._held = None, []
        self._next_number = stack.lines[-1].number + 1
        if any(line.has_place for line in stack.lines):
            self.stack_count += 1
            self._end(stack, held)
        else:
            self._out.write(_as_it_is(held))

    def _pass(self, text: bytes) -> None:
        self._out.write(text if self._note is None else self._note(text))

    def _line(self, line: bytes) -> None:
        parsed = self._parse(line)
        if parsed is None:
            if self._stack is not None and self._stack.takes_between(line):
                self._held[-1].between.append(line)
                return
            self.end_stack()
            self._shift = self._next_number = 0
            self._samples.places.note(line)
            self._pass(self._summary.rewrite(line))
            return
        frame, form = parsed
        if self._stack is not None and not self._stack.takes(frame, form.dialect):
            self.end_stack()
        if self._stack is None:
            if frame.number != self._next_number:
                self._shift = 0
            self._stack, self._form = TextStack(form.dialect), form
        self._stack.lines.append(frame)
        self._held.append(HeldLine(line, frame, []))

    def _parse(self, line: bytes) -> _Parsed:
        """Return the frame that a line shows; some lines would, without those before, be of another form, too."""
        own = self._form if self._stack is not None else None
        key = line, own
        if key in self._parsed:
            return self._parsed[key]
        parsed: _Parsed = None
        for form in FORMS if own is None else (own, *FORMS):
            frame = form.dialect.parse(line) if form.mark in line else None
            if frame is not None:
                parsed = frame, form
                break
        if len(line) <= _KEPT_LINE_BYTES:
            if len(self._parsed) >= _KEPT_LINES:
                self._parsed.clear()
            self._parsed[key] = parsed
        return parsed

    def _end(self, stack: TextStack, held: list[HeldLine]) -> None:
        """Write a stack that can be looked up; a report often has the same one again."""
        state = self._samples.places.state
        key = tuple([line.text for line in held]), state, self._shift
        is_plain = not stack.between_bytes
        known = self._kept.get(key) if is_plain else None
        if known is None:
            known = self._rewrite(stack, held)
            size_bytes = len(known.text) + sum(map(len, key[0]))
            if self._keeps and is_plain and state == self._samples.places.state:  # else the stack has shown a place
                if self._kept_bytes + size_bytes > _KEPT_STACK_BYTES:
                    self._kept.clear()
                    self._kept_bytes = 0
                self._kept[key] = known
                self._kept_bytes += size_bytes
        self._out.write(known.text)
        self._shift = known.shift
        self._summary.note(known.names)

    def _rewrite(self, stack: TextStack, held: list[HeldLine]) -> _Rewritten:
        """Return the lines of a stack, with right names if it can be resolved."""
        frames = stack.frames()
        sample = self._samples.sample(stack, frames)
        self.unplaced_count += not is_placed(sample)
        try:
            (resolved,) = self._resolver.resolve([sample])
        except IcfError as error:
            if str(error) not in self._warned:
                self._warned.add(str(error))
                warn(f"{error}: its frames are unknown")
            return self._unchanged(held)
        if any(answer.verdict is not Verdict.UNKNOWN for answer in resolved.answers):
            self.is_any_known = True
        if not is_certain(frames, resolved):
            return self._unchanged(held)
        lines, replaced, shift = rewrite(held, frames, resolved, self._form, self._namer, self._shift)
        return _Rewritten(b"".join(lines), shift, self._names(replaced))

    def _unchanged(self, held: list[HeldLine]) -> _Rewritten:
        return _Rewritten(_as_it_is(held), 0, self._names(Replaced(line.frame, None) for line in held))

    def _names(self, lines: Iterable[Replaced]) -> tuple[NewName, ...]:
        return tuple(new_names(lines)) if self._form.dialect is sanitizer.DIALECT else ()


def _as_it_is(held: list[HeldLine]) -> bytes:
    return b"".join(chain.from_iterable((line.text, *line.between) for line in held))
