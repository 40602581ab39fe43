"""Stacks in text: lines that show frames, put together to the stacks that they are of.

    #0 0x5581d984 in List<User>::last() shop.cpp:7:49       ┐ a frame of its own
    #1 0x5581d8c5 in List<User>::peek() shop.cpp:8:83       ┐ two lines of one frame: peek() is inlined in sum()
    #2 0x5581d8c5 in List<User>::sum() shop.cpp:9:49        ┘
    #3 0x5581da60 in _start (shop+0x62a60)                  ┐ ends the stack: the next line has another number

Each format of lines is a `Dialect`, with which its reader and the filter of logs (`unwind.logs`) read lines, and put
them together with `TextStack`.

Names and lines are what some symbolizer has printed, which is the wrong one of the functions that share a body, or one
of each: nothing is taken from them but how many lines a frame has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from unwind.readers.frame_line import FrameLine
from unwind.readers.module_places import ModulePlaces
from unwind.readers.source import Source
from unwind.samples.lossy_process import LossyProcess
from unwind.samples.recording import (
    Inlined,
    Losses,
    RecordedFrame,
    RecordedModule,
    RecordedProcess,
    Recording,
    Sample,
)

STACK_LIMIT = 4096  # lines; what is longer is cut
BETWEEN_LIMIT = 1 << 20  # bytes of lines between frames: local variables
_KEPT = 1 << 16


def _has_next_number(before: list[FrameLine], line: FrameLine) -> bool:
    return line.number == before[-1].number + 1


def has_another_address(before: list[FrameLine], line: FrameLine) -> bool:
    """Return whether a line is of the same stack: the function that writes the stack calls nothing that is on it."""
    return line.address != before[0].address


def _never(before: list[FrameLine], line: FrameLine) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Dialect:
    """A format of lines that show frames."""

    name: str  # as `--format` has it
    parse: Callable[[bytes], FrameLine | None]
    joins: Callable[[list[FrameLine], FrameLine], bool] = _never  # whether a line is of the frame that these show
    goes_on: Callable[[list[FrameLine], FrameLine], bool] = _has_next_number  # whether a line is of the same stack
    is_between: Callable[[bytes], bool] = lambda line: False  # whether a line that shows no frame ends no stack
    is_called: bool = False  # the first frame is a return address
    in_call: bool = False  # return addresses are those of the calls, or less one
    losses: Losses = Losses.NONE  # frames that its stacks may lack
    marks_inlined: bool = False  # lines say which are inlined: equal ones are not calls of a function by itself

    def recognizes(self, head: bytes) -> bool:
        """Return whether a text has a stack of this dialect: a frame that says where it is."""
        return any((frame := self.parse(line)) is not None and frame.has_place for line in head.splitlines(True))

    def read(self, source: Source) -> Recording:
        """Return the stacks in a text; lines between stacks are passed over."""
        places = ModulePlaces(source.places, named=source.named)
        return Recording(self.name, samples_of(source.lines(), self, places), losses=self.losses)


@dataclass(slots=True, eq=False)
class TextFrame:
    """A frame with its lines; `is_certain` unless it may be several frames that look the same."""

    lines: list[FrameLine]
    is_certain: bool = True

    @property
    def placed(self) -> FrameLine:
        """The line that says where the frame is: the first that does."""
        return next((line for line in self.lines if line.has_place), self.lines[0])


@dataclass(slots=True)
class TextStack:
    """Lines that are in a row of one stack."""

    dialect: Dialect
    lines: list[FrameLine] = field(default_factory=list)
    between_bytes: int = 0

    def takes(self, line: FrameLine, dialect: Dialect) -> bool:
        """Return whether `line` is the next one of this stack."""
        if dialect is not self.dialect or len(self.lines) >= STACK_LIMIT:
            return False
        return self.dialect.goes_on(self.lines, line)

    def takes_between(self, line: bytes) -> bool:
        """Return whether the stack can go on after a line that shows no frame."""
        if not self.dialect.is_between(line):
            return False
        self.between_bytes += len(line)
        return self.between_bytes < BETWEEN_LIMIT

    def frames(self) -> list[TextFrame]:
        """Return the frames with their lines, innermost first."""
        frames: list[TextFrame] = []
        for line in self.lines:
            if frames and self.dialect.joins(frames[-1].lines, line):
                frames[-1].lines.append(line)
            else:
                frames.append(TextFrame([line]))
        return frames if self.dialect.marks_inlined else [part for frame in frames for part in _repeated(frame)]


def _repeated(frame: TextFrame) -> Iterator[TextFrame]:
    """Yield the frames of lines at one address: a function that calls itself has the same lines for each call."""
    count = len(frame.lines) if frame.lines[-1].has_place else 0
    shown = [(line.name, line.file, line.line, line.column) for line in frame.lines]
    for period in range(1, count // 2 + 1):
        if count % period == 0 and shown[period:] == shown[:-period]:
            for at in range(0, count, period):
                yield TextFrame(frame.lines[at : at + period], is_certain=False)
            return
    yield frame


class Samples:
    """Makes samples of stacks: equal frames, and processes with the same modules, are one object.

    `says_losses`: their processes say which frames the stacks of their dialect may lack, as those of one text differ.
    """

    def __init__(self, places: ModulePlaces, *, says_losses: bool = False) -> None:
        self.places, self._says_losses = places, says_losses
        self._frames: dict[tuple[int | None, RecordedModule | None, str, bool, bool], RecordedFrame] = {}
        self._processes: dict[tuple[frozenset[RecordedModule], Losses | None], RecordedProcess] = {}

    def sample(self, stack: TextStack, frames: list[TextFrame]) -> Sample:
        """Return the sample of a stack, one recorded frame for each of `frames`."""
        for line in stack.lines:
            self.places.learn(line)
        self.places.learn_names([(frame.placed.address, frame.lines[-1].name) for frame in frames])
        is_called = stack.dialect.is_called or stack.lines[0].number > 0
        recorded: list[RecordedFrame] = []
        is_exact = False
        for idx, frame in enumerate(frames):
            in_call = stack.dialect.in_call and (idx > 0 or is_called)
            recorded.append(self._frame(frame, is_exact, in_call))
            is_exact = frame.placed.is_signal
        modules = self.places.modules.union(each.module for each in recorded if each.module is not None)
        losses = stack.dialect.losses if self._says_losses else None
        process = self._processes.get((modules, losses))
        if process is None:
            if len(self._processes) >= _KEPT:
                self._processes.clear()
            listed = sorted(modules, key=lambda each: (each.path, each.build_id))
            process = self._processes[modules, losses] = (
                RecordedProcess(modules=listed) if losses is None else LossyProcess(modules=listed, losses=losses)
            )
        return Sample(tuple(recorded), process, is_called=is_called)

    def _frame(self, frame: TextFrame, is_exact: bool, in_call: bool) -> RecordedFrame:
        last = frame.lines[-1]
        address, module = self.places.place(frame.placed)
        key = address, module, last.name, is_exact, in_call
        known = self._frames.get(key)
        if known is None:
            if len(self._frames) >= _KEPT:
                self._frames.clear()
            inlined = tuple(Inlined(line.name, line.file, line.line) for line in frame.lines[:-1])
            known = self._frames[key] = RecordedFrame(
                address, module, last.name, last.file, last.line, is_exact=is_exact, in_call=in_call, inlined=inlined
            )
        return known


def samples_of(lines: Iterable[bytes], dialect: Dialect, places: ModulePlaces) -> Iterator[Sample]:
    """Yield the stacks in the lines of a text."""
    samples = Samples(places)
    stack: TextStack | None = None
    for line in lines:
        frame = dialect.parse(line)
        if frame is None:
            samples.places.note(line)
            if stack is not None and not stack.takes_between(line):
                yield samples.sample(stack, stack.frames())
                stack = None
            continue
        if stack is not None and not stack.takes(frame, dialect):
            yield samples.sample(stack, stack.frames())
            stack = None
        if stack is None:
            stack = TextStack(dialect)
        stack.lines.append(frame)
    if stack is not None:
        yield samples.sample(stack, stack.frames())
