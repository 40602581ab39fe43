"""The helper of a debugger's plug-in: answers questions about stacks (`unwind.debugger.question`), a line of JSON each.

    {"id": 7, "stacks": [{"frames": [...], "weight": 1}, ...], "warnings": ["..."]}
    {"id": 8, "error": "/usr/bin/shop: .debug_icf+0x12: version 9, can read 3 and 4", "warnings": []}

A frame of an answer has the fields of `icf resolve --out json` (`unwind.writers.json_lines`). Every line has an answer,
in order; a line that is not a question gets an error with the id null. An image that is damaged is left out, with a
warning.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from icf.errors import IcfError
from unwind.debugger.conversation import Conversation
from unwind.debugger.images import Read
from unwind.debugger.process import DebuggedProcess
from unwind.debugger.question import Question, parse_question
from unwind.process.module_list import LoadedModule
from unwind.symbolize.answer import read_frames
from unwind.target.search import SearchPaths
from unwind.writers.json_lines import JsonWriter

ReadFor = Callable[[int, int, int], bytes | None]
"""Returns memory for the question of a number: address, size in bytes."""
_Key = tuple[tuple[LoadedModule, ...], tuple[str, ...]]


class Server:
    """Answers questions; keeps the images of the last process that was asked about. To be closed."""

    def __init__(self, cache_dir: str | None = None, shared_caches: Sequence[str] = ()) -> None:
        self._cache_dir, self._shared_caches = cache_dir, shared_caches
        self._opened = ExitStack()
        self._broken: set[str] = set()  # images whose tables or debug information are damaged
        self._process: tuple[_Key, DebuggedProcess] | None = None
        self._read: Read = lambda *_: None
        self._warnings = _Warnings()
        logging.getLogger("icf").addHandler(self._warnings)

    def serve(self, conversation: Conversation) -> None:
        """Answer each question of a conversation."""
        for line in conversation:
            conversation.reply(self.answer(line, conversation.read))

    def answer(self, line: bytes, read: ReadFor = lambda *_: None) -> bytes:
        """Return the answer to a line, with its newline; `read` reads memory of the process for it."""
        number: int | None = None
        try:
            question = parse_question(line)
            number = question.number
            self._read = partial(read, number)
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
            process = self._open(question)
            try:
                resolved = [process.resolve(asked, question.explain) for asked in question.stacks]
                break
            except IcfError as error:
                if not self._leave_out_damaged(question):
                    raise
                self._warnings.add(f"{error}: the names of its functions are those of the debugger")
                self._process = None
        read_frames(answers for answers, _ in resolved)
        writer = JsonWriter(with_modules=True)
        for answers, facts in resolved:
            yield writer.line(1, answers, facts).rstrip("\n")

    def _open(self, question: Question) -> DebuggedProcess:
        key = question.modules, question.debug_roots
        if self._process is None or self._process[0] != key:
            self._process = None
            self._opened.close()
            modules = [each for each in question.modules if each.path not in self._broken]
            is_whole = len(modules) == len(question.modules)
            process = DebuggedProcess(modules, self._search(question), self._opened, self._memory, is_whole=is_whole)
            self._process = key, process
        return self._process[1]

    def _memory(self, address: int, size_bytes: int) -> bytes | None:
        return self._read(address, size_bytes)

    def _search(self, question: Question) -> SearchPaths:
        return SearchPaths(None, question.debug_roots, self._cache_dir, self._shared_caches)

    def _leave_out_damaged(self, question: Question) -> bool:
        """Note which images cannot be read; return whether there are any that were not noted."""
        search = self._search(question)
        before = len(self._broken)
        for module in question.modules:
            try:
                if module.path not in self._broken:
                    search.open(module.path)
            except IcfError:
                self._broken.add(module.path)
        return len(self._broken) > before


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
