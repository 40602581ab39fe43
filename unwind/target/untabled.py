"""Images without call-site tables, whose merged functions nothing tells apart: the user hears of each once."""

from __future__ import annotations

from collections.abc import Iterable

from icf.debugfiles.stripped import tables_hint
from icf.log import note
from icf.model import Verdict
from unwind.program.program import Program
from unwind.symbolize.answer import Answer
from unwind.symcache.format.container import STALE_TABLES
from unwind.symcache.reader.program import has_program
from unwind.symcache.reader.symcache import SymCache

_OPEN = (Verdict.AMBIGUOUS, Verdict.NARROWED)


class Untabled:
    """The images without tables that frames lie in, and the frames that stay open there."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}  # of the image, by that of its program
        self._open: dict[str, set[int | None]] = {}  # addresses by path

    def add(self, program: Program, path: str, cache: SymCache) -> None:
        """Take note of an image that is opened; one with stale tables, or tables of another tool, is not meant."""
        if has_program(cache) and "icf" not in cache.container and not cache.head.flags & STALE_TABLES:
            self._paths[program.path] = path

    def note(self, answers: Iterable[Answer]) -> None:
        """Take note of the open ones among some answers."""
        for answer in answers:
            path = self._paths.get(answer.module)
            if path is not None and answer.verdict in _OPEN:
                self._open.setdefault(path, set()).add(answer.address)

    def report(self) -> None:
        """Report each image with frames that stay open."""
        for path, addresses in self._open.items():
            frames = "1 distinct frame" if len(addresses) == 1 else f"{len(addresses):,} distinct frames"
            note(f"{path} has no call-site tables: {frames} may be of several functions", tables_hint(path))
        self._open.clear()
