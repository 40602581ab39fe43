"""Open what stacks are resolved with: the one image of `-e`, or the modules of `--modules`.

An image of the list is opened at once, which reads its headers: that shows whether it is the right one, and where it
ends. Its tables, symbols and debug information are read when an address in it is looked up, or a call leads to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from icf.debugfiles.options import attach_debug, open_image
from icf.elf.image import Image
from unwind.answer import FrameAnswer
from unwind.exports import Exports, ImageExports
from unwind.load import has_only_records, has_tables, load_program
from unwind.modules import find_images, read_modules
from unwind.process import Candidates, Module, Process
from unwind.program import Program

Place = Callable[[FrameAnswer], tuple[str, int] | None]
_Opened = Iterator[tuple[Process, Place]]


@contextmanager
def open_alone(path: str, debug_file: str | None, debug_roots: Sequence[str], *, no_lines: bool) -> _Opened:
    """One image, and the places of its frames; says on stderr what it lacks."""
    with open_image(path, debug_file, debug_roots, needs_code=True) as image:
        if has_only_records(image):
            print(
                f"icf: {path} has .debug_dcall alone: functions that share a body are found by symbols and debug"
                f" information\nhint: 'icf pass {path}' knows more",
                file=sys.stderr,
            )
        elif not has_tables(image):
            print(
                f"icf: {path} has no call-site tables, so folded functions cannot be told apart\n"
                f"hint: run 'icf pass {path}'",
                file=sys.stderr,
            )
        program = Program.from_image(image)
        if program.dropped_records:
            print(f"icf: {path}: {program.dropped_records} records do not fit its code, left out", file=sys.stderr)
        yield Process.of(program), _nowhere if no_lines else _Places({program: image}).place


@contextmanager
def open_modules(path: str, module_roots: Sequence[str], debug_roots: Sequence[str], *, no_lines: bool) -> _Opened:
    """The modules that a list names, and the places of their frames; one line on stderr for each that is not found."""
    with ExitStack() as opened:
        placed, missing = find_images(read_modules(path), (*module_roots, *debug_roots), opened)
        for problem in missing:
            sys.stderr.write(f"icf: warning: {problem}: its frames are unknown\n")
        image_of: dict[Program, Image] = {}
        modules = []
        for each in placed:
            exports = ImageExports(each.image)
            load = partial(_load, each.image, exports, debug_roots, image_of)
            modules.append(Module(each.path, each.bias, each.start, each.end, load, exports))
        yield Process(modules), _nowhere if no_lines else _Places(image_of).place


def _load(
    image: Image, exports: Exports, roots: Sequence[str], image_of: dict[Program, Image], candidates: Candidates
) -> Program:
    attach_debug(image, roots)
    program = load_program(image, exports, candidates)
    image_of[program] = image
    return program


def _nowhere(_: FrameAnswer) -> None:
    return None


class _Places:
    """File and line of a frame, by the debug information of its module."""

    def __init__(self, image_of: dict[Program, Image]) -> None:
        self._image_of = image_of
        self._of: dict[Program, Place] = {}

    def place(self, answer: FrameAnswer) -> tuple[str, int] | None:
        if answer.body is None:
            return None
        program = answer.body.program
        place = self._of.get(program)
        if place is None:
            from unwind.lines import Lines

            place = self._of[program] = Lines(self._image_of[program]).place
        return place(answer)
