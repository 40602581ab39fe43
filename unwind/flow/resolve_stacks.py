"""Resolve stacks that are addresses alone (`--format pcs`): of one image, listed modules, or a running process.

Stacks are read, resolved and written some thousands at a time, so that a pipe of any length needs no memory of its
length, and what is inlined in a function is looked up once for all that call in it. But no stack waits while the
input has nothing more: a program that sends one through a pipe and waits for the answer gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from icf.errors import IcfError
from icf.model import Verdict
from unwind.flow.progress import Progress
from unwind.options import losses_of
from unwind.readers.pcs import read_pcs
from unwind.readers.source import Source
from unwind.resolve.answer import Facts
from unwind.resolve.bases import warn_of_bases
from unwind.resolve.resolver import Answers, Resolver
from unwind.samples.recording import Losses
from unwind.samples.stack import Stack
from unwind.samples.together import together
from unwind.symbolize.answer import read_frames
from unwind.target.opening import open_alone, open_modules, open_process
from unwind.target.search import SearchPaths
from unwind.writers.json_lines import JsonWriter
from unwind.writers.text import TextWriter

if TYPE_CHECKING:
    from argparse import Namespace

    from unwind.second_reader.resolver import SecondResolver
    from unwind.target.live_resolver import LiveResolver

_Resolved = tuple[Stack, Answers, Facts | None]
_Write = Callable[[int, Answers, Facts | None], str]
_WRITTEN_TOGETHER = 512  # stacks
_OF_IMAGE = "-e takes addresses as linked, which offsets in the file are not (`perf script` up to 6.3 prints those)"
_OF_MODULES = "give the text of /proc/PID/maps, or path, start, end and offset of the mapping that holds the code"


def resolve_stacks(args: Namespace, source: Source, out: BinaryIO) -> bool:
    """Write the answer for each stack; return whether any frame of any stack is known, or there was none.

    It raises IcfError for a line that is not a stack, after it has written the answers for the stacks before it.
    """
    with _open(args) as first, Progress(source.stream) as progress:
        resolver = _second(first) if args.second_reader else first
        write = _writer(args)
        facts = _explainer(first) if args.explain else lambda stack, answers: None
        seen_count, is_any_known = 0, False
        for part in together(_stacks(args, source), lambda stack: len(stack.addresses), source.has_more):
            seen_count += len(part)
            resolved: list[_Resolved] = []
            try:
                for stack in part:
                    answers = resolver.resolve(stack.addresses, stack.vptrs, stack.exact)
                    resolved.append((stack, answers, facts(stack, answers)))
                    is_any_known = is_any_known or any(answer.verdict is not Verdict.UNKNOWN for answer in answers)
            finally:  # an image that cannot be read does not take back the answers that did not need it
                _write(resolved, write, out, progress, with_lines=not args.no_lines)
            if not source.has_more():
                out.flush()
        if args.pid is None:
            hint = _OF_MODULES if args.exe is None else _OF_IMAGE
            warn_of_bases(resolver.places, args.exe or "", hint)
    return is_any_known or not seen_count


def _stacks(args: Namespace, source: Source) -> Iterator[Stack]:
    stacks = read_pcs(source.lines(), source.path)
    return (replace(stack, vptrs=()) for stack in stacks) if args.no_vptr else stacks


def _write(resolved: list[_Resolved], write: _Write, out: BinaryIO, progress: Progress, *, with_lines: bool) -> None:
    """Write what was resolved, and forget it."""
    if with_lines:
        read_frames(answers for _, answers, _ in resolved)
    while resolved:
        part = resolved[:_WRITTEN_TOGETHER]
        del resolved[:_WRITTEN_TOGETHER]
        texts = (write(stack.weight, answers, facts) for stack, answers, facts in part)  # one may have megabytes
        out.writelines(text.encode("utf-8", "surrogateescape") for text in texts)
        progress.step(len(part))


def _open(args: Namespace) -> AbstractContextManager[Resolver | LiveResolver]:
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    if args.exe is None and args.debug_file is not None:
        raise IcfError("--debug-file is about one image", hint="without -e, name folders with --debug-root")
    losses = losses_of(args, Losses.NONE)
    if args.pid is not None:
        return open_process(args.pid, search, losses)
    if args.modules is not None:
        return open_modules(args.modules, args.module_root, search, losses)
    return open_alone(args.exe, search, losses)


def _second(first: Resolver | LiveResolver) -> SecondResolver:
    from unwind.second_reader.resolver import SecondResolver  # imports networkx

    return SecondResolver(first.process)


def _explainer(resolver: Resolver | LiveResolver) -> Callable[[Stack, Answers], Facts | None]:
    from unwind.resolve.explain import explain

    return partial(explain, resolver)


def _writer(args: Namespace) -> _Write:
    if args.out == "json":
        with_modules = args.exe is None
        return JsonWriter(
            with_modules=with_modules, with_lines=not args.no_lines, max_candidates=args.max_candidates
        ).line
    return TextWriter(with_lines=not args.no_lines, max_candidates=args.max_candidates).block
