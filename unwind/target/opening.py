"""Open what stacks are resolved with: the one image of `-e`, the modules of `--modules`, or a process that runs.

What is asked of an image comes from its symcache (`unwind.symcache`), which is made when there is none: then neither
the image nor its debug information is opened. The images of a list are opened, which reads their headers: that shows
whether it is the right one, and where it ends. Their symcaches are read when an address is looked up, or a call
leads there. A module whose image is gone is known by the symcache that is kept of its build.

An image with the proposal's tables alone (`unwind.program.from_foreign_tables`) is read itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from icf.debugfiles.options import open_image
from icf.debugfiles.stripped import tables_hint
from icf.errors import IcfError
from icf.printable import say
from unwind.process.module_list import Placed, find_images, read_modules
from unwind.process.process import Candidates, Module, Process
from unwind.program.exports import Exports
from unwind.program.from_image import load_program
from unwind.program.program import Program
from unwind.resolve.answer import FrameAnswer
from unwind.resolve.resolver import Resolver
from unwind.symcache.format.container import STALE_TABLES
from unwind.symcache.reader.found import CachedFrame
from unwind.symcache.reader.program import has_program, load_cached
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.store import open_or_build
from unwind.target.frames import Frames, KeptFrames, OneByOne

_Opened = Iterator[tuple[Resolver, Frames]]


class Places(NamedTuple):
    """Where debug information is searched, and where symcaches are kept; None: the user's folder."""

    debug_file: str | None = None
    debug_roots: Sequence[str] = ()
    cache_dir: str | None = None

    def open(self, path: str) -> SymCache:
        """The symcache of an image."""
        return open_or_build(
            path, debug_file=self.debug_file, debug_roots=self.debug_roots, cache_dir=self.cache_dir, lazy=False
        )

    def program(
        self,
        cache: SymCache,
        path: str,
        opened: ExitStack,
        exports: Exports | None = None,
        candidates: Candidates | None = None,
    ) -> Program:
        """The program of a symcache, or of its image, which is closed with `opened`."""
        if has_program(cache):
            return load_cached(cache, exports, candidates)
        image = opened.enter_context(open_image(path, self.debug_file, self.debug_roots))
        return load_program(image, exports, candidates)


@contextmanager
def open_alone(path: str, places: Places, *, no_lines: bool) -> _Opened:
    """One image, and the functions inlined in its frames; says on stderr what it lacks."""
    with ExitStack() as opened:
        cache = places.open(path)
        if has_program(cache) and not cache.container.section_size_bytes("codemap"):
            raise IcfError(
                f"{path}: is a separate debug file, without code",
                hint="name the image that it belongs to, and this file with --debug-file",
            )
        program = places.program(cache, path, opened)
        if not has_program(cache):
            say(
                f"icf: {path} has .debug_dcall alone: functions that share a body are found by symbols and debug"
                " information",
                f"hint: 'icf pass {path}' knows more",
            )
        elif "icf" not in cache.container and not cache.head.flags & STALE_TABLES:
            say(
                f"icf: {path} has no call-site tables, so folded functions cannot be told apart",
                f"hint: {tables_hint(path)}",
            )
        if program.dropped_records:
            say(f"icf: {path}: {program.dropped_records} records do not fit its code, left out")
        yield Resolver(program), OneByOne(_nothing) if no_lines else KeptFrames({program: cache})


@contextmanager
def open_modules(path: str, module_roots: Sequence[str], places: Places, *, no_lines: bool) -> _Opened:
    """The modules that a list names, and the functions inlined in their frames; a line on stderr for each that is not
    found."""
    with ExitStack() as opened:
        roots = (*module_roots, *places.debug_roots)
        placed, missing = find_images(read_modules(path), roots, places.cache_dir, opened)
        for problem in missing:
            say(f"icf: warning: {problem}: its frames are unknown")
        cache_of: dict[Program, SymCache] = {}
        modules = []
        for each in placed:
            load = partial(_load, each, places, cache_of, opened)
            modules.append(Module(each.path, each.bias, each.start, each.end, load, each.exports))
        yield Resolver(Process(modules)), OneByOne(_nothing) if no_lines else KeptFrames(cache_of)


@contextmanager
def open_process(pid: int, places: Places, *, no_lines: bool) -> _Opened:
    """The modules of a running process, and the functions inlined in their frames."""
    from unwind.target.live_symbolizer import open_process as open_live

    with open_live(pid, debug_roots=places.debug_roots, cache_dir=places.cache_dir) as live:
        yield live.resolver, OneByOne(_nothing if no_lines else live.frames_of)


def _load(
    placed: Placed, places: Places, cache_of: dict[Program, SymCache], opened: ExitStack, candidates: Candidates
) -> Program:
    cache = placed.cache or places.open(placed.found)
    program = places.program(cache, placed.found, opened, placed.exports, candidates)
    cache_of[program] = cache
    return program


def _nothing(_: FrameAnswer) -> Sequence[CachedFrame]:
    return ()
