"""`icf report`: what is merged in an image, or what a profile has under wrong names, as a table, one page or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from icf.debugfiles.options import add_debug_arguments
from icf.errors import IcfError
from icf.garbage import collect_seldom
from icf.printable import say
from unwind.options import (
    add_cache_options,
    add_lossy_option,
    add_module_root_option,
    add_value_option,
    choose_value,
    losses_of,
)
from unwind.output import check_output, open_output

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from unwind.readers.source import Source
    from unwind.report.data import Report
    from unwind.samples.recording import Recording
    from unwind.target.search import SearchPaths

_IMAGE = b"\x7fELF"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="a linked image, or a recording in any format that `icf resolve` reads"
    )
    out = parser.add_mutually_exclusive_group()
    out.add_argument(
        "-o",
        "--output",
        metavar="REPORT",
        help="the page to write, one HTML file that needs nothing else; `-`: stdout; without it, and without --json, a"
        " table is printed: the functions before and after, or what is merged",
    )
    out.add_argument("--json", action="store_true", help="write the same data to stdout, as one JSON document")
    parser.add_argument("-e", "--exe", metavar="IMAGE", help="the image that a recording is of, wherever it lies now")
    add_module_root_option(parser)
    add_value_option(parser, "counts")
    add_debug_arguments(parser)
    add_cache_options(parser)
    add_lossy_option(parser)


def run(args: Namespace) -> int:
    from unwind.target.search import SearchPaths

    collect_seldom()
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    check_output(args)
    report = _collect(args, search)
    _write(args, report)
    if report.problem is not None:
        raise report.problem
    if report.profile is not None and report.profile.samples and not report.images:
        say("icf: every frame of every stack is unknown")
        return 1
    return 0


def _collect(args: Namespace, search: SearchPaths) -> Report:
    from unwind.flow.progress import Progress
    from unwind.process.image_finder import ImageFinder
    from unwind.readers.source import Source
    from unwind.report.collect import of_image, of_recording
    from unwind.target.recorded import RecordedResolver
    from unwind.target.recorded_objects import RecordedObjects

    images = ImageFinder(args.module_root, args.debug_root, args.exe)
    with Source.open(args.file, images) as source:
        if source.head.startswith(_IMAGE):
            return of_image(args.file, search)
        recording = _recording(source, args.exe)
        choose_value(args, recording, source.path)
        losses = losses_of(args, recording.losses)
        with RecordedResolver(search, images, losses=losses) as resolver:
            source.objects = RecordedObjects(resolver, search)
            with Progress(source.stream) as progress:
                report = of_recording(source.path, recording, resolver, progress.step)
            resolver.report()
            return report


def _recording(source: Source, image: str | None) -> Recording:
    from unwind.readers.formats import PCS, reader_of, recognize
    from unwind.readers.pcs import recording_of

    name = recognize(source)
    if name != PCS:
        return reader_of(name).read(source)
    if not source.head:
        raise IcfError(f"{source.path}: is empty")
    if image is None:
        raise IcfError(f"{source.path}: has addresses alone", hint="name the image that they are of with -e")
    return recording_of(source.lines(), source.path, image)


def _write(args: Namespace, report: Report) -> None:
    from unwind.report.document import document_of

    if args.json:
        text = f"{json.dumps(document_of(report), separators=(',', ':'))}\n"
    elif args.output is not None:
        from unwind.report.page import page_of

        text = page_of(document_of(report))
    else:
        from unwind.report.table import table_of

        text = table_of(report)
    with open_output(args) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))
