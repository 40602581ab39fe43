"""The helper of a debugger's plug-in: answers questions about stacks (`unwind.debugger.question`), a line of JSON each.

    {"id": 7, "stacks": [{"frames": [...], "weight": 1}, ...], "warnings": ["..."]}
    {"id": 8, "error": "/usr/bin/shop: .debug_icf+0x12: version 9, can read 3 and 4", "warnings": []}

A frame of an answer has the fields of `icf resolve --out json` (`unwind.writers.json_lines`). Every line has an answer,
in order; a line that is not a question gets an error with the id null. An image that is damaged is left out, with a
warning.

The debugger finds the caller of code without call frame information by heuristics, which may leave callers out. What
stands on one side of such a frame says nothing about the other side.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

from icf.errors import IcfError
from unwind.debugger.gaps import Gaps
from unwind.debugger.question import AskedStack, Question, parse_question
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.module_list import LoadedModule
from unwind.resolve.answer import Facts
from unwind.resolve.explain import explain
from unwind.resolve.resolver import Answers, Resolver
from unwind.samples.stack import Stack
from unwind.symbolize.answer import Answer, read_frames
from unwind.target.opening import open_listed
from unwind.target.search import SearchPaths
from unwind.writers.json_lines import JsonWriter


class Server:
    """Answers questions; keeps the images of the last process that was asked about. To be closed."""

    def __init__(self, cache_dir: str | None = None, shared_caches: Sequence[str] = ()) -> None:
        self._cache_dir, self._shared_caches = cache_dir, shared_caches
        self._opened = ExitStack()
        self._known: tuple[tuple[LoadedModule, ...], tuple[str, ...]] | None = None
        self._broken: set[str] = set()  # images whose tables or debug information are damaged
        self._resolver: Resolver | None = None
        self._gaps: Gaps | None = None
        self._warnings = _Warnings()
        logging.getLogger("icf").addHandler(self._warnings)

    def answers(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the answer to each line."""
        for line in lines:
            if line.strip():
                yield self.answer(line)

    def answer(self, line: bytes) -> bytes:
        """Return the answer to a line, with its newline."""
        number: int | None = None
        try:
            question = parse_question(line)
            number = question.number
            stacks = ",".join(self._stacks(question))
            text = f'{{"id":{number},"stacks":[{stacks}],"warnings":{json.dumps(self._warnings.take())}}}\n'
        except (IcfError, OSError, MemoryError, RecursionError) as error:
            problem = str(error) or type(error).__name__
            text = json.dumps({"id": number, "error": problem, "warnings": self._warnings.take()}) + "\n"
        return text.encode("utf-8", "surrogateescape")

    def close(self) -> None:
        """Close the images."""
        logging.getLogger("icf").removeHandler(self._warnings)
        self._opened.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stacks(self, question: Question) -> Iterator[str]:
        """Yield the JSON of each stack; an image that is damaged is left out from then on."""
        for _ in range(len(question.modules) + 1):
            resolver, gaps = self._open(question)
            try:
                resolved = [_resolve(resolver, gaps, asked, question.explain) for asked in question.stacks]
                break
            except IcfError as error:
                if not self._leave_out_damaged(question):
                    raise
                self._warnings.add(f"{error}: the names of its functions are those of the debugger")
                self._known = None
        read_frames(answers for answers, _ in resolved)
        writer = JsonWriter(with_modules=True)
        for answers, facts in resolved:
            yield writer.line(1, answers, facts).rstrip("\n")

    def _open(self, question: Question) -> tuple[Resolver, Gaps]:
        key = question.modules, question.debug_roots
        if key != self._known or self._resolver is None or self._gaps is None:
            self._known = None
            self._opened.close()
            modules = [each for each in question.modules if each.path not in self._broken]
            search = SearchPaths(None, question.debug_roots, self._cache_dir, self._shared_caches)
            images = self._opened.enter_context(ImageFinder((), question.debug_roots))
            found = [images.find(Sought(each.path, each.build_id)) for each in modules]
            is_whole = len(modules) == len(question.modules) and not any(isinstance(each, str) for each in found)
            self._resolver = open_listed(modules, images, search, self._opened, is_whole=is_whole)
            self._gaps = Gaps(self._resolver.process, modules, images)
            self._known = key
        return self._resolver, self._gaps

    def _leave_out_damaged(self, question: Question) -> bool:
        """Note which images cannot be read; return whether there are any that were not noted."""
        search = SearchPaths(None, question.debug_roots, self._cache_dir, self._shared_caches)
        before = len(self._broken)
        for module in question.modules:
            try:
                if module.path not in self._broken:
                    search.open(module.path)
            except IcfError:
                self._broken.add(module.path)
        return len(self._broken) > before


def _resolve(resolver: Resolver, gaps: Gaps, asked: AskedStack, explained: bool) -> tuple[Answers, Facts | None]:
    """Return the answers for a stack, each part between two gaps by itself, and the facts that explain them."""
    answers: list[Answer] = []
    facts: Facts = []
    start = 0
    for idx, address in enumerate(asked.frames):
        is_exact = idx in asked.exact or (idx == 0 and not asked.is_called)
        if idx + 1 < len(asked.frames) and not gaps.may_lose_caller(address, is_exact):
            continue
        is_called = start not in asked.exact and (start > 0 or asked.is_called)  # something unknown was called there
        part = _part(asked, start, idx + 1, 1 if is_called else 0)
        found = resolver.resolve(part.addresses, part.vptrs, part.exact)
        if explained:
            facts += explain(resolver, part, found)[is_called:]
        answers += found[is_called:]
        start = idx + 1
    return tuple(answers), facts if explained else None


def _part(asked: AskedStack, start: int, end: int, before: int) -> Stack:
    """Return the frames `start:end` as a stack, with `before` unknown frames inwards of them."""
    return Stack(
        (None,) * before + asked.frames[start:end],
        vptrs=tuple([(idx - start + before, vptr) for idx, vptr in asked.vptrs if start <= idx < end]),
        exact=tuple([idx - start + before for idx in sorted(asked.exact) if start <= idx < end]),
    )


class _Warnings(logging.Handler):
    """Keeps what the packages report while a question is answered."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        hint = getattr(record, "hint", None)
        self.add(record.getMessage() + (f" ({hint})" if hint else ""))

    def add(self, line: str) -> None:
        """Keep a line."""
        self._lines.append(line)

    def take(self) -> list[str]:
        """Return the lines since the last time, each once."""
        lines = list(dict.fromkeys(self._lines))
        self._lines.clear()
        return lines
