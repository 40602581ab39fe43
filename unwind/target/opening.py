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

from icf.debugfiles.stripped import tables_hint
from icf.errors import IcfError
from icf.log import note, warn
from unwind.process.module_list import Placed, find_images, read_modules
from unwind.process.process import Module, Process
from unwind.program.program import Linkage, Program
from unwind.resolve.answer import FrameAnswer
from unwind.resolve.resolver import Resolver
from unwind.symcache.format.container import STALE_TABLES
from unwind.symcache.reader.found import Frame
from unwind.symcache.reader.program import has_program
from unwind.symcache.reader.symcache import SymCache
from unwind.target.frames import Frames, KeptFrames, OneByOne
from unwind.target.search import SearchPaths

_Opened = Iterator[tuple[Resolver, Frames]]


def open_resolver(
    path: str,
    *,
    debug_file: str | None = None,
    debug_roots: Sequence[str] = (),
    cache_dir: str | None = None,
    shared_caches: Sequence[str] = (),
    use_vptrs: bool = True,
) -> Resolver:
    """Return the resolver of the image at `path`, from its symcache, which is made if there is none.

    `debug_file`, `debug_roots`, `cache_dir` and `shared_caches` are as `open_or_build` has them. Raises `IcfError`
    for what is no image.
    Without `use_vptrs` the resolver ignores all vtable pointers beside stacks: they say what memory held when the stack
    was taken (evidence `vptr`).
    """
    search = SearchPaths(debug_file, debug_roots, cache_dir, shared_caches)
    # an image with foreign tables is read on: it stays open as long as the resolver is there
    return Resolver(search.program(search.open(path), path, ExitStack()), use_vptrs=use_vptrs)


@contextmanager
def open_alone(path: str, search: SearchPaths, *, no_lines: bool) -> _Opened:
    """One image, and the functions inlined in its frames; reports what it lacks."""
    with ExitStack() as opened:
        cache = search.open(path)
        if has_program(cache) and not cache.container.section_size_bytes("codemap"):
            raise IcfError(
                f"{path}: is a separate debug file, without code",
                hint="name the image that it belongs to, and this file with --debug-file",
            )
        program = search.program(cache, path, opened)
        if not has_program(cache):
            note(
                f"{path} has .debug_dcall alone: functions that share a body are found by symbols and debug"
                " information",
                f"'icf pass {path}' knows more",
            )
        elif "icf" not in cache.container and not cache.head.flags & STALE_TABLES:
            note(
                f"{path} has no call-site tables, so merged functions are ambiguous",
                tables_hint(path),
            )
        if program.dropped_records:
            note(f"{path}: {program.dropped_records} records do not fit its code and are ignored")
        yield Resolver(program), OneByOne(_nothing) if no_lines else KeptFrames({program: cache})


@contextmanager
def open_modules(path: str, module_roots: Sequence[str], search: SearchPaths, *, no_lines: bool) -> _Opened:
    """The modules that a list names, and the functions inlined in their frames; reports each that is not found."""
    with ExitStack() as opened:
        roots = (*module_roots, *search.debug_roots)
        placed, missing = find_images(read_modules(path), roots, search.cache_dir, opened)
        for problem in missing:
            warn(f"{problem}: its frames are unknown")
        cache_of: dict[Program, SymCache] = {}
        modules = []
        for each in placed:
            load = partial(_load, each, search, cache_of, opened)
            modules.append(Module(each.path, each.bias, each.start, each.end, load, each.exports))
        yield Resolver(Process(modules)), OneByOne(_nothing) if no_lines else KeptFrames(cache_of)


@contextmanager
def open_process(pid: int, search: SearchPaths, *, no_lines: bool) -> _Opened:
    """The modules of a running process, and the functions inlined in their frames."""
    from unwind.target.live_symbolizer import open_process as open_live

    with open_live(
        pid, debug_roots=search.debug_roots, cache_dir=search.cache_dir, shared_caches=search.shared_caches
    ) as live:
        yield live.resolver, OneByOne(_nothing if no_lines else live.frames_of)


def _load(
    placed: Placed, search: SearchPaths, cache_of: dict[Program, SymCache], opened: ExitStack, linkage: Linkage
) -> Program:
    cache = placed.cache or search.open(placed.found)
    program = search.program(cache, placed.found, opened, placed.exports, linkage)
    cache_of[program] = cache
    return program


def _nothing(_: FrameAnswer) -> Sequence[Frame]:
    return ()
