"""Opens images for the resolver: the one image of `-e`, the modules of `--modules`, or a running process.

Facts about an image come from its symcache (`unwind.symcache`), which is made when there is none: then neither
the image nor its debug information is opened. The images of a list are opened, which reads their headers: that shows
whether it is the right one, and where it ends. Their symcaches are read for the first address in them, or the first
call that leads there. A module whose image is gone is known by the symcache that is kept of its build.

An image with the proposal's tables alone (`unwind.program.from_foreign_tables`) is read itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from icf.debugfiles.stripped import tables_hint
from icf.errors import IcfError
from icf.log import note, warn
from unwind.process.process import Module, Process
from unwind.program.program import Linkage, Program
from unwind.resolve.resolver import Resolver
from unwind.samples.recording import Losses
from unwind.symcache.format.container import STALE_TABLES
from unwind.symcache.reader.program import has_program
from unwind.target.search import SearchPaths

if TYPE_CHECKING:
    from unwind.process.image_finder import ImageFinder
    from unwind.process.module_list import LoadedModule, Placed
    from unwind.target.live_resolver import LiveResolver

_VDSO = ("[vdso]", "linux-vdso", "linux-gate")


def open_resolver(
    path: str,
    *,
    debug_file: str | None = None,
    debug_roots: Sequence[str] = (),
    cache_dir: str | None = None,
    shared_caches: Sequence[str] = (),
    use_vptrs: bool = True,
) -> Resolver:
    """Return the resolver of an image, from its symcache, which is made if there is none.

    Args:
        path: the image.
        debug_file: its separate debug file; None: found by build id or debug link.
        debug_roots: directories to search for debug information, besides /usr/lib/debug.
        cache_dir: directory of symcaches; None: $ICF_CACHE_DIR, else the user's.
        shared_caches: directories of symcaches that are only read.
        use_vptrs: whether vtable pointers of sampled objects count; they rest on memory at the time of the sample
            (evidence `vptr`).

    Returns:
        A resolver for link-time addresses.

    Raises:
        IcfError: the file is not a supported image, or cannot be read.
    """
    search = SearchPaths(debug_file, debug_roots, cache_dir, shared_caches)
    # an image with foreign tables is read on: it stays open as long as the resolver exists
    return Resolver(search.program(search.open(path), path, ExitStack()), use_vptrs=use_vptrs)


@contextmanager
def open_alone(path: str, search: SearchPaths, losses: Losses = Losses.NONE) -> Iterator[Resolver]:
    """Open one image, whose stacks may lack frames; report what the image lacks."""
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
        yield Resolver(program, losses=losses)


@contextmanager
def open_modules(
    path: str, module_roots: Sequence[str], search: SearchPaths, losses: Losses = Losses.NONE
) -> Iterator[Resolver]:
    """Open the modules that a list names, whose stacks may lack frames; report each that is not found."""
    from unwind.process.image_finder import ImageFinder
    from unwind.process.module_list import read_modules

    with ImageFinder(module_roots, search.debug_roots) as images, ExitStack() as opened:
        yield open_listed(read_modules(path), images, search, opened, losses=losses)


def open_listed(
    modules: Sequence[LoadedModule],
    images: ImageFinder,
    search: SearchPaths,
    opened: ExitStack,
    *,
    is_whole: bool = True,
    losses: Losses = Losses.NONE,
) -> Resolver:
    """Return the resolver of listed modules; report each that is not found.

    What it opens is closed with `images` and `opened`. `is_whole`: the process has no other modules. `losses`: which
    frames the stacks may lack.
    """
    from unwind.process.module_list import find_images

    placed, missing = find_images(modules, images, search.cache_dir)
    for problem in missing:
        warn(f"{problem}: its frames are unknown")
    found = []
    for each in placed:
        load = partial(_load, each, search, opened)
        found.append(Module(each.path, each.bias, each.start, each.end, load, each.exports))
    lacks_images = len(missing) > sum(map(_is_vdso, modules))
    return Resolver(Process(found, is_whole=is_whole, lacks_images=lacks_images), losses=losses)


def _is_vdso(module: LoadedModule) -> bool:
    """Return whether a module is the kernel's, which has no file."""
    return os.path.basename(module.path).startswith(_VDSO)


@contextmanager
def open_process(pid: int, search: SearchPaths, losses: Losses = Losses.NONE) -> Iterator[LiveResolver]:
    """Open the modules of a running process, whose stacks may lack frames."""
    from unwind.target.live_symbolizer import open_process as open_live

    with open_live(
        pid, debug_roots=search.debug_roots, cache_dir=search.cache_dir, shared_caches=search.shared_caches
    ) as live:
        resolver = live.resolver
        resolver.losses = losses
        yield resolver


def _load(placed: Placed, search: SearchPaths, opened: ExitStack, linkage: Linkage) -> Program:
    cache = placed.cache or search.open(placed.found)
    return search.program(cache, placed.found, opened, placed.exports, linkage)
