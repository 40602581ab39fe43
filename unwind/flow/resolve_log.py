"""Resolve the stacks in a log: open what its addresses are of, and run the filter."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import BinaryIO

from icf.log import note
from unwind.logs.addresses import AddressNotes
from unwind.logs.filter import filter_log
from unwind.logs.live import LiveStacks
from unwind.options import losses_of
from unwind.process.image_finder import ImageFinder
from unwind.readers.module_places import ModulePlace, ModulePlaces
from unwind.readers.source import Source
from unwind.samples.recording import Losses
from unwind.target.given_places import note_unplaced, places_of_image, places_of_list
from unwind.target.live_symbolizer import open_process
from unwind.target.named_places import NamedPlaces
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.writers.named import Ambiguous, Namer


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
            annotate = notes.annotate if args.addresses else None
            says_losses = args.lossy is None
            filtered = filter_log(
                source.stream, out, stacks, namer, places, annotate, keeps=False, says_losses=says_losses
            )
            return filtered.is_any_known or not filtered.stacks
        losses, with_lines = losses_of(args, Losses.NONE), not args.no_lines
        images = opened.enter_context(ImageFinder(args.module_root, args.debug_root, args.exe))
        resolver = RecordedResolver(search, images, losses=losses, with_lines=with_lines)
        opened.enter_context(resolver)
        given: Sequence[ModulePlace] = ()
        if args.modules is not None:
            given = places_of_list(args.modules, images, args.cache_dir)
        elif args.exe is not None:
            given = places_of_image(args.exe, with_linked=args.addresses)
        named = opened.enter_context(closing(NamedPlaces(args.exe, search))) if args.exe is not None else None
        places = ModulePlaces(given, resolver.exported, named)
        notes = AddressNotes(resolver, namer, places, keeps=True)
        annotate = notes.annotate if args.addresses else None
        filtered = filter_log(source.stream, out, resolver, namer, places, annotate, says_losses=args.lossy is None)
        resolver.report()
        if filtered.unplaced:
            note_unplaced(source.path, filtered.unplaced)
        elif not filtered.stacks and not args.addresses and source.is_file:
            note(f"{source.path}: has no stack in a form that icf knows")
        return filtered.is_any_known or not filtered.stacks
