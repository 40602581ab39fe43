"""Names of the instructions that `icf trace view` prints: by the address alone, so all members of a merged body."""

from __future__ import annotations

from argparse import Namespace
from contextlib import ExitStack

from icf.model import Verdict
from unwind.process.image_finder import ImageFinder
from unwind.samples.recording import Base, RecordedFrame, RecordedModule, RecordedProcess, Sample
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.writers.named import Namer


class InstructionNames:
    """Names addresses of a traced process, each once."""

    def __init__(self, args: Namespace, process: RecordedProcess, opened: ExitStack) -> None:
        search = SearchPaths(None, (), args.cache_dir, args.shared_cache)
        finder = opened.enter_context(ImageFinder(args.module_root, (), args.exe))
        self._resolver = opened.enter_context(RecordedResolver(search, finder, with_lines=False))
        self._namer = Namer(with_lines=False)
        self._process = process
        self._known: dict[int, str] = {}

    def name(self, address: int) -> str:
        """Return the function at an address, all that it can be, or "" if it is in none that is known."""
        name = self._known.get(address)
        if name is None:
            frame = RecordedFrame(address, self._module(address))
            resolved = self._resolver.resolve([Sample((frame,), self._process)])[0]
            answer = resolved.answers[0]
            is_known = answer.verdict is not Verdict.UNKNOWN
            name = self._known[address] = self._namer.frame(frame, answer)[0].name if is_known else ""
        return name

    def _module(self, address: int) -> RecordedModule | None:
        for module in self._process.modules:
            if module.base is Base.LINKED or module.start <= address < module.end:
                return module
        return None
