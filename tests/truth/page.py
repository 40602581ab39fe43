"""One page of all accuracy figures, of one run.

    python -m tests.truth.page docs/accuracy.md                               what `make accuracy` writes
    python -m tests.truth.page FILE.md --program gen --compiler clang --linker lldr --part sampled

As many processes as there are processors share the work: first the other parts, then the builds of sampled programs
(`tests.truth`), one at a time. Exits with 1 if a part does, that is if a name was wrong.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

from tests.support.versions import versions
from tests.truth.__main__ import measure_all, parse
from tests.truth.measure import Measurement
from tests.truth.peers import PEERS
from tests.truth.programs import CACHE
from tests.truth.score import Score
from tests.truth.table import percent, record_lines, table_lines, way_lines

SAMPLED = "sampled"
HEAD = """\
# Accuracy, measured

`make accuracy` writes this page: all figures are of one run. [Accuracy](design/accuracy.md) says how the truth is
known, and what the words mean; [Missing frames](design/missing-frames.md) has the rules for stacks that lack some. The
rule is: never a wrong name.

<!-- not run: it takes 10 to 40 minutes -->
```console
$ make accuracy
$ .venv/bin/python -m tests.truth.page FILE.md --program gen --compiler clang --part sampled
```

"""


RECORDS = """\
## All that the tables say

Sampled stacks show code that ran. Here is every record, against code without folding: right / open / unseen / wrong.
Open: the tables name no function. Unseen: the code was not found without folding. The last column has the frames in
merged functions of stacks made of direct calls, whether they ever run or not: right / narrowed / no claim / wrong.

"""


class Part(NamedTuple):
    """Something measured by a module of its own, which prints a table."""

    title: str
    command: tuple[str, ...]
    about: str


PARTS = {
    "modules": Part(
        "Several modules",
        ("tests.truth.modules",),
        "An executable and two shared objects; percent of the merged frames.",
    ),
    "stepped": Part(
        "At every instruction",
        ("tests.truth.stepped", "--compiler", "gcc", "--compiler", "clang", "--linker", "gold", "--findings", "0"),
        "Small programs of one theme each; percent of the merged frames of distinct stacks.",
    ),
    "damaged": Part(
        "Whole and lossy stacks",
        ("tests.truth.damaged", "--stacks", "4000"),
        "The same stacks whole, cut and with frames missing, by what `--lossy` says of them. A name may be wrong where "
        "the mode does not cover the damage.",
    ),
    "recordings": Part(
        "Recordings",
        ("tests.truth.recordings", "--program", "ninja", "--linker", "lld"),  # cppcheck compiles for half an hour
        "Shares of samples of each function, beside those of the link without folding.",
    ),
}


class Ran(NamedTuple):
    """What a part printed, how it ended and how long it took."""

    text: str
    status: int
    wall_s: float


def run_part(part: Part, cache: Path) -> Ran:
    begin_s = time.monotonic()
    command = [sys.executable, "-m", *part.command, "--cache", str(cache)]
    done = subprocess.run(command, capture_output=True, text=True)
    return Ran(done.stdout + done.stderr * bool(done.returncode), done.returncode, time.monotonic() - begin_s)


def peer_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """Yield a table of frames in merged functions: percent right, of `icf` with what it was given, and of each peer."""
    yield f"| program, compiler, linker | frames | icf, given | right | wrong | {' | '.join(PEERS)} |"
    yield "|---" * (5 + len(PEERS)) + "|"
    for each in measured:
        peers = [_right(each.peers.get(name)) for name in PEERS]
        for result in each.results:
            if result.score:
                label = f"{each.program}, {each.kind.compiler}, {each.kind.linker}"
                wrong = result.score.merged["wrong"] + result.score.other["unmerged, wrong"]
                cells = [f"{result.score.merged.total():,}", result.evidence, _right(result.score), str(wrong), *peers]
                yield f"| {label} | {' | '.join(cells)} |"


def evidence_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """Yield a table of what each evidence adds: percent right of all merged frames, and of those at entries."""
    yield "| program, compiler, linker | icf, given | named | more than before | at entries | with vtable pointers |"
    yield "|---|---|---|---|---|---|"
    for each in measured:
        before: float | None = None
        for result in each.results:
            if result.score is None:
                continue
            named = result.score.share(result.score.merged, "right")
            more = "" if before is None else f"{named - before:+.1f}"
            label = f"{each.program}, {each.kind.compiler}, {each.kind.linker}"
            vptr = f"{_right(result.without_vptr)} | {_right(result.with_vptr)}"
            yield f"| {label} | {result.evidence} | {percent(named)} % | {more} | {vptr} |"
            before = named


def _right(score: Score | None) -> str:
    return f"{percent(score.share(score.merged, 'right'))} %" if score and score.merged.total() else ""


def page(measured: Sequence[Measurement], parts: dict[str, Ran], ran: Sequence[tuple[str, str]]) -> str:
    """Return the text of the page."""
    text = [HEAD, "## What ran\n\n| | |\n|---|---|\n", *(f"| {name} | {version} |\n" for name, version in ran), "\n"]
    if measured:
        tables = {
            "Beside other tools": peer_lines(measured),
            "What each evidence adds": evidence_lines(measured),
            "Direct calls, by build": table_lines(measured),
        }
        for title, lines in tables.items():
            text.append(f"## {title}\n\n" + "\n".join(lines).replace("|\n0 wrong", "|\n\n0 wrong") + "\n\n")
        text.append(RECORDS + "\n".join(record_lines(measured)) + "\n\n")
        text.append("## By kind of call, with and without vtable pointers\n" + "\n".join(way_lines(measured)) + "\n\n")
    for name, each in parts.items():
        about = f"{PARTS[name].about} `python -m {' '.join(PARTS[name].command)}`"
        text.append(f"## {PARTS[name].title}\n\n{about}\n\n```text\n{each.text.rstrip()}\n```\n\n")
    return "".join(text).rstrip("\n") + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the page; return 1 if a name is wrong.

    Calls without a name, of which `forms` has some, are on the page.
    """
    parser = argparse.ArgumentParser(prog="tests.truth.page", description="write the page of accuracy")
    parser.add_argument("page", type=Path, metavar="FILE.md")
    parser.add_argument("--part", action="append", choices=[SAMPLED, *PARTS], help="by default all")
    parser.add_argument("--cache", type=Path, default=CACHE)
    args, rest = parser.parse_known_args(arguments)
    chosen = args.part or [SAMPLED, *PARTS]
    words = [*rest, "--cache", str(args.cache)]
    begin_s = time.monotonic()
    measured: list[Measurement] = []
    sampled = parse(words)
    with ProcessPoolExecutor(sampled.processes) as processes, redirect_stdout(sys.stderr):
        runs = {name: processes.submit(run_part, part, args.cache) for name, part in PARTS.items() if name in chosen}
        if SAMPLED in chosen:
            measured = list(measure_all(sampled, processes))
        parts = {name: run.result() for name, run in runs.items()}
    took = [("all of it", time.monotonic() - begin_s), *((name, ran.wall_s) for name, ran in parts.items())]
    asked = [*rest, *(word for name in args.part or () for word in ("--part", name))]
    ran = [
        ("command", f"`{shlex.join(['python', '-m', 'tests.truth.page', 'FILE.md', *asked])}`"),
        ("minutes", ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in took)),
        *versions("g++", "clang++", "ld.gold", "ld.lld", "ld.mold", "llvm-symbolizer", "addr2line", "gdb", "perf"),
    ]
    args.page.write_text(page(measured, parts, ran))
    is_wrong = any(each.is_wrong for result in measured for each in result.results)
    return int(is_wrong or any(each.status for each in parts.values()))


if __name__ == "__main__":
    sys.exit(main())
