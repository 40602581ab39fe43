"""How fast: scan, pass, resolver, symcache, unwinder, links, recordings and traces, each beside something known.

    python -m tests.bench                     what `make bench` measures, as tables
    python -m tests.bench --page FILE.md      the same, and writes the page and FILE.svg beside it
    python -m tests.bench IMAGE... [--part pass] [--json]    these linked images alone
    python -m tests.bench --copies 100 300    programs with so many MB of .debug_info alone (`tests.bench.copies`)

Without images or sizes it measures: the images that tests.truth builds, and what else is in its cache; made programs
and links; a recording of a Python that works; a made trace. A part that fails is reported, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench import copies
from tests.bench.image import PARTS, bench_image
from tests.bench.links import bench_links
from tests.bench.page import Subject, page, plot, what_ran
from tests.bench.recordings import FORMATS, bench_recording, record
from tests.bench.rows import Figures, Row, aligned, rows_of_image, rows_of_link, rows_of_recording, rows_of_trace
from tests.bench.timing import CommandFailed
from tests.bench.traces import RECORD_COUNT, bench_trace
from tests.truth.builds import build
from tests.truth.programs import CACHE, GENERATED, NINJA, Unavailable
from tests.truth.tool import default_command

COPIES_MB, LINKS_MB = (100.0, 300.0), (10.0, 40.0)
LARGE_BYTES = 30e6
Rows = Callable[[Figures], Iterator[Row]]
Job = tuple[str, Callable[[], Figures], Rows]


def _default_images(cache: Path) -> list[Path]:
    """Return what the accuracy run measures on; anything larger that lies in its cache comes along."""
    images = []
    for program in (GENERATED, NINJA):
        try:
            images.append(build(program, "clang", "lldr", cache).folded)
        except Unavailable as reason:
            print(f"{program.name}: left out: {reason}", file=sys.stderr)
    larger = [path for linker in ("lldr", "lld", "gold") for path in sorted(cache.glob(f"*/*/{linker}/*.all_"))]
    return [*images, *(path for path in larger if path.stat().st_size > LARGE_BYTES and path not in images)]


def _jobs(args: argparse.Namespace, work: Path) -> Iterator[Job]:
    """Yield what is to be measured: a title, what measures it, and what makes rows of its figures."""
    command = shlex.split(args.tool) if args.tool else default_command()
    is_all = not (args.images or args.copies or args.links or args.recordings or args.records)
    images = args.images or (_default_images(args.cache) if is_all else [])
    of_image = partial(bench_image, command=command, turn_count=args.turns, wanted=args.part or PARTS)
    for image in images:
        yield _title(image, args.cache), partial(of_image, image), rows_of_image

    def of_copies(megabytes: float) -> Figures:
        return of_image(copies.make(megabytes, args.cache / "copies"))

    for megabytes in args.copies or (COPIES_MB if is_all else ()):
        title = f"Copies, {megabytes:g} MB of .debug_info (clang, lld)"
        yield title, partial(of_copies, megabytes), rows_of_image
    for number, megabytes in enumerate(args.links or (LINKS_MB if is_all else ())):
        (folder := work / f"link-{number}").mkdir()
        link = partial(bench_links, megabytes, folder, command, args.turns)
        yield f"Link, {megabytes:g} MB of .debug_info (clang, lld)", link, rows_of_link
    of_recording = partial(bench_recording, formats=FORMATS, command=command, turn_count=args.turns)
    for path in args.recordings:
        yield f"Recording {path.name}", partial(of_recording, path), rows_of_recording
    if is_all:
        yield "Recording of a Python, frame pointers", lambda: of_recording(record(work)), rows_of_recording
    if is_all or args.records:
        trace = partial(bench_trace, args.records or RECORD_COUNT, work, command, args.turns)
        yield "Trace of a loop, chunks of 100,000 instructions", trace, rows_of_trace


def _title(image: Path, cache: Path) -> str:
    """Return program, compiler and linker of an image that tests.truth has built; else its name."""
    if image.resolve().is_relative_to(cache.resolve()):
        return ", ".join(image.resolve().relative_to(cache.resolve()).parts[:-1])
    return image.name


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for, and print tables as they come."""
    parser = argparse.ArgumentParser(prog="tests.bench", description="measure speed and memory")
    parser.add_argument("images", nargs="*", type=Path, metavar="IMAGE")
    parser.add_argument("--part", action="append", choices=PARTS, help="of what is measured of an image")
    parser.add_argument("--copies", nargs="+", type=float, default=[], metavar="MB", help="of .debug_info")
    parser.add_argument("--links", nargs="+", type=float, default=[], metavar="MB", help="of .debug_info")
    parser.add_argument("--recordings", nargs="+", type=Path, default=[], metavar="FILE", help="of perf")
    parser.add_argument("--records", type=int, metavar="N", help="of a made trace")
    parser.add_argument("--turns", type=int, default=5, help="measured runs of each command (default 5)")
    parser.add_argument("--tool", help="command of the tool under test (default: icf beside this Python)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="write this page, too")
    parser.add_argument("--cache", type=Path, default=CACHE)
    args = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    results, subjects, is_whole = [], [], True
    with TemporaryDirectory() as work:
        for title, job, rows in _jobs(args, Path(work)):
            os.environ["ICF_CACHE_DIR"] = f"{work}/cache"
            try:
                figures = job()
            except (CommandFailed, Unavailable) as error:
                figures = {"problem": str(error)}
            problems = _problems(figures)
            is_whole &= not problems
            results.append({"title": title, **figures})
            subjects.append(Subject(title, [] if "problem" in figures else list(rows(figures))))
            if not args.json:
                print("\n".join([title, *problems, aligned(subjects[-1].rows)]), flush=True)
    if args.json:
        print(json.dumps(results, indent=1))
    if args.page:
        picture = args.page.with_suffix(".svg")
        ran = list(what_ran(arguments if arguments is not None else sys.argv[1:], load))
        args.page.write_text(page([each for each in subjects if each.rows], args.turns, picture.name, ran))
        picture.write_text(plot(subjects))
    return int(not is_whole)


def _problems(figures: Figures) -> list[str]:
    """Return a line for each part that failed."""
    parts = {name: part for name, part in figures.items() if isinstance(part, dict) and "problem" in part}
    whole = {"all": figures} if "problem" in figures else {}
    return [f"  {name} failed: {part['problem']}" for name, part in {**whole, **parts}.items()]


if __name__ == "__main__":
    sys.exit(main())
