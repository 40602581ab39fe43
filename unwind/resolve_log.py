"""Resolve the stacks in a log: open what its addresses are of, and run the filter."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from typing import BinaryIO

from icf.elf.image import Image
from icf.elf.types import ET_EXEC, PT_INTERP
from icf.log import warn
from unwind.logs.addresses import AddressNotes
from unwind.logs.filter import filter_log
from unwind.logs.live import LiveStacks
from unwind.options import losses_of
from unwind.process.image_finder import ImageFinder
from unwind.process.module_list import find_images, read_modules
from unwind.readers.module_places import ModulePlace, ModulePlaces
from unwind.readers.source import Source
from unwind.samples.recording import Losses, RecordedModule
from unwind.target.live_symbolizer import open_process
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.writers.named import Ambiguous, Namer

_PIE_BASE = 0x555555554000  # where Linux on x86-64 loads a program without randomization, as gdb starts it


def resolve_log(args: Namespace, source: Source, out: BinaryIO) -> bool:
    """Copy a log with right names in its stacks; return whether any frame is known, or there was none."""
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    namer = Namer(Ambiguous(args.ambiguous), with_lines=not args.no_lines)
    with ExitStack() as opened:
        if args.pid is not None:
            live = opened.enter_context(
                open_process(
                    args.pid,
                    debug_roots=search.debug_roots,
                    cache_dir=search.cache_dir,
                    shared_caches=search.shared_caches,
                )
            )
            stacks, places = LiveStacks(live), ModulePlaces()
            notes = AddressNotes(stacks, namer, places, keeps=False)
            note = notes.annotate if args.addresses else None
            return filter_log(source.stream, out, stacks, namer, places, note, keeps=False)
        losses, with_lines = losses_of(args, Losses.NONE), not args.no_lines
        images = opened.enter_context(ImageFinder(args.module_root, args.debug_root, args.exe))
        resolver = RecordedResolver(search, images, losses=losses, with_lines=with_lines)
        opened.enter_context(resolver)
        given: Sequence[ModulePlace] = ()
        if args.modules is not None:
            given = _listed(args.modules, images, args.cache_dir)
        elif args.exe is not None:
            given = _of_image(args.exe, with_linked=args.addresses)
        places = ModulePlaces(given, resolver.exported)
        notes = AddressNotes(resolver, namer, places, keeps=True)
        is_any_known = filter_log(
            source.stream, out, resolver, namer, places, notes.annotate if args.addresses else None
        )
        resolver.report()
        return is_any_known


def _listed(path: str, images: ImageFinder, cache_dir: str | None) -> list[ModulePlace]:
    """Return the places of the modules in a list; reports each whose image is not found."""
    modules = read_modules(path)
    build_ids = {module.path: module.build_id for module in modules}
    placed, missing = find_images(modules, images, cache_dir)
    for problem in missing:
        warn(f"{problem}: its frames are unknown")
    return [
        ModulePlace(each.start, each.end, each.bias, RecordedModule(each.found or each.path, build_ids[each.path]))
        for each in placed
    ]


def _of_image(path: str, *, with_linked: bool) -> list[ModulePlace]:
    """Return where a program lies: as linked, or where one that can lie anywhere lies without randomization."""
    with Image.open(path) as image:
        low, high = image.span
        module = RecordedModule(path, image.build_id)
        biases = []
        if with_linked or image.headers.elf_type == ET_EXEC:
            biases.append(0)
        if image.headers.elf_type != ET_EXEC and any(segment.type == PT_INTERP for segment in image.segments):
            biases.append(_PIE_BASE)
    return [ModulePlace(low + bias, high + bias, bias, module) for bias in biases]
