"""Decide which lines of a stack are written anew, and number all of them.

A frame keeps its lines where nothing better is known: its function is not known, or is the only one at its address and
the line has its name and file already. So what stands in a log of a program without merged functions stays, if a
symbolizer has been there.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from icf.demangle import qualified_name
from icf.model import Verdict
from unwind.logs.forms import Form, Known, renumbered
from unwind.readers.frame_line import FrameLine
from unwind.readers.text_stacks import TextFrame
from unwind.resolve.resolved import Resolved
from unwind.symbolize.answer import Answer
from unwind.writers.named import NamedFrame, Namer


class HeldLine(NamedTuple):
    """A line of a stack, and the lines after it that show no frame."""

    text: bytes
    frame: FrameLine
    between: list[bytes]


class Replaced(NamedTuple):
    """A line as it was, and what stands there now."""

    old: FrameLine
    new: bytes | None  # None: it stays


def rewrite(
    held: list[HeldLine], frames: list[TextFrame], resolved: Resolved, form: Form, namer: Namer, shift: int
) -> tuple[list[bytes], list[Replaced], int]:
    """Return the lines of a stack, what became of each, and how far the numbers after it are shifted.

    `shift` is how far those of this stack are, as it goes on one that was cut.
    """
    out: list[bytes] = []
    replaced: list[Replaced] = []
    at = 0
    for frame, recorded, answer in zip(frames, resolved.sample.frames, resolved.answers, strict=True):
        lines = held[at : at + len(frame.lines)]
        at += len(lines)
        new: list[bytes] | None = None
        shown = namer.frame(recorded, answer)
        if recorded.address is None:  # of gdb: the frame alone, without those that tail calls left out
            shown = shown[:1]
        else:
            shown = tuple(each for each in shown if each.address is not None)
        stands_for = set(map(_intercepted, _symbols(answer)))
        if shown and len(stands_for) == 1 and "" not in stands_for:
            shown = (*shown[:-1], shown[-1]._replace(name=stands_for.pop()))
        if shown and _is_better(frame, answer, shown, form):
            known = Known(shown, recorded, max((recorded.address or 0) - answer.start, 0))
            new = form.write(frame, known, lines[0].frame.number + shift)
        if new is None:
            for line in lines:
                out.append(renumbered(line.text, line.frame, line.frame.number + shift) if shift else line.text)
                out += line.between
                replaced.append(Replaced(line.frame, None))
            continue
        replaced += _pairs(frame.lines, new)
        for idx, text in enumerate(new):
            out.append(text)
            last = len(lines) if idx == len(new) - 1 else idx + 1
            between = (each for line in lines[idx:last] for each in line.between)
            out += [each for each in between if form.line_of_file is None or not form.line_of_file.match(each)]
        if lines[0].frame.number >= 0:
            shift += len(new) - len(lines)
    return out, replaced, shift


def is_certain(frames: list[TextFrame], resolved: Resolved) -> bool:
    """Return whether all lines are put together to frames rightly.

    Lines that look the same are those of a function that calls itself, or of one that is inlined in itself. How many
    functions are inlined at the address shows which.
    """
    return all(
        frame.is_certain or answer.verdict is Verdict.UNKNOWN or len(answer.frames) == len(frame.lines)
        for frame, answer in zip(frames, resolved.answers, strict=True)
    )


def _is_better(frame: TextFrame, answer: Answer, shown: tuple[NamedFrame, ...], form: Form) -> bool:
    """Return whether an answer says more than the lines of its frame."""
    last = frame.lines[-1]
    if answer.verdict is Verdict.UNKNOWN:
        return False
    if answer.verdict is Verdict.UNMERGED:
        return not last.name or (form.has_files and bool(shown[-1].line) and not last.line)
    if len(shown) == len(frame.lines) and all(map(_is_same, frame.lines, shown)):
        return False
    return not last.name or any(_intercepted(each) != last.name for each in _symbols(answer))


def _is_same(line: FrameLine, shown: NamedFrame) -> bool:
    """Return whether a line has this function and place already, as its symbolizer writes them."""
    return (
        shown.is_settled
        and line.name in (shown.name, qualified_name(shown.name))
        and (line.line, os.path.basename(line.file)) == (shown.line, os.path.basename(shown.file))
    )


def _symbols(answer: Answer) -> tuple[str, ...]:
    """Return the symbol of a function, or those of all that it can be."""
    return tuple(answer.linkage_names) or (answer.linkage_name or answer.name or "",)


def _intercepted(symbol: str) -> str:
    """Return the function that a symbol of a sanitizer's runtime stands in for; several symbols stand in for each."""
    plain = symbol.lstrip("_")
    return plain.removeprefix("interceptor_") if plain.startswith("interceptor_") else ""


def _pairs(old: list[FrameLine], new: list[bytes]) -> list[Replaced]:
    """Return which line takes the place of which."""
    if len(old) == len(new):
        return list(map(Replaced, old, new))
    return [Replaced(old[0], new[0]), Replaced(old[-1], new[-1])]
