"""`icf trace profile`: how many instructions each function executed, before and after, or in a format of profiles."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator

from icf.errors import IcfError
from icf.log import note
from unwind.flow.write_samples import write_samples
from unwind.output import open_output
from unwind.process.image_finder import ImageFinder
from unwind.report.data import Function, Profile
from unwind.report.profile import ProfileCollector
from unwind.samples.recording import Recording
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.trace.recording import recording_of
from unwind.writers.formats import open_writer
from unwind.writers.named import Ambiguous, Namer

TABLE = "table"


def profile(args: Namespace, files: list[str]) -> bool:
    """Write the profile of a trace; return whether any instruction of it is known.

    Raises `IcfError` for a trace that breaks a rule.
    """
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    recording = recording_of(args.trace, files, args.exe, args.modules)
    images = ImageFinder(args.module_root, args.debug_root, args.exe)
    with images, RecordedResolver(search, images, with_lines=args.out != TABLE) as resolver:
        is_any_known = _table(args, recording, resolver) if args.out == TABLE else _write(args, recording, resolver)
        resolver.report()
    return is_any_known


def _write(args: Namespace, recording: Recording, resolver: RecordedResolver) -> bool:
    writer = open_writer(args.out, recording, Namer(Ambiguous(args.ambiguous)))
    with open_output(args) as out:
        return write_samples(recording.samples, resolver, writer, out).outcome()


def _table(args: Namespace, recording: Recording, resolver: RecordedResolver) -> bool:
    collector = ProfileCollector(resolver, recording)
    found, problem = collector.collect(lambda _: None)
    if problem is not None:
        raise problem
    functions = [each for each in found.functions if each.self_before or each.self_after]
    functions.sort(key=lambda each: (-max(each.self_before, each.self_after), each.name))
    lines = _as_json(found, functions) if args.json else _as_text(found, functions)
    with open_output(args) as out:
        out.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    if found.functions_left_out:
        note(f"{found.functions_left_out:,} functions with fewer instructions are left out")
    return found.unknown < found.weight or not found.weight


def _as_text(found: Profile, functions: list[Function]) -> Iterator[str]:
    open_self = sum(each.self_after for each in functions if each.is_open)  # a caller that is open does not count
    yield f"{found.weight:,} instructions: {found.changed_self:,} under another name than before, {open_self:,} open"
    yield f"{'before':>16} {'after':>16}  function"
    for each in functions:
        yield f"{each.self_before:>16,} {each.self_after:>16,}  {each.name}"


def _as_json(found: Profile, functions: list[Function]) -> Iterator[str]:
    rows = [
        {"name": each.name, "before": each.self_before, "after": each.self_after, "is_open": each.is_open}
        for each in functions
    ]
    counts = {"instructions": found.weight, "changed": found.changed_self, "unknown": found.unknown}
    yield json.dumps({**counts, "functions": rows}, separators=(",", ":"))


def check_options(args: Namespace) -> None:
    """Raise `IcfError` for options that exclude each other."""
    if args.json and args.out != TABLE:
        raise IcfError("--json is for the table of functions", hint="--out json writes every stack as JSON")
