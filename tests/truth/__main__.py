"""Accuracy of `icf pass`, `icf link` and `icf resolve` against a measured truth.

    python -m tests.truth                    gen, built in every way of `tests.truth.kinds`; others in the usual ones
    python -m tests.truth --program ninja    in every way
    python -m tests.truth --program cppcheck --compiler clang --compiler gcc
    python -m tests.truth --program gen --compiler clang-g1 --linker lld --evidence objects --findings 20

Exits with 1 if a name was wrong, where the evidence says every direct call, one has no name, or if the second reader's
answers differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.truth.builds import COMPILERS, LINKERS, build
from tests.truth.kinds import EVIDENCE, KINDS, LINKED_TWICE, Kind
from tests.truth.measure import Measurement, measure
from tests.truth.programs import CACHE, PROGRAMS, Unavailable
from tests.truth.reached import WAYS
from tests.truth.score import OUTCOMES, Score
from tests.truth.table import table_lines, way_lines
from tests.truth.tool import default_command


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="tests.truth", description="measure accuracy against the truth")
    parser.add_argument("--program", action="append", choices=sorted(PROGRAMS))
    parser.add_argument("--compiler", action="append", choices=sorted(COMPILERS))
    parser.add_argument("--linker", action="append", choices=sorted(LINKERS), help="lldr: lld --emit-relocs")
    parser.add_argument("--evidence", action="append", choices=[*EVIDENCE, LINKED_TWICE], help="what the pass is given")
    parser.add_argument("--tool", help="command of the tool under test (default: icf beside this Python)")
    parser.add_argument("--peers-only", action="store_true", help="leave out the tool under test")
    parser.add_argument("--no-peers", action="store_true", help="the tool under test alone")
    parser.add_argument(
        "--vptr",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ask again for the samples at entries, with the vtable pointers of the objects whose functions run",
    )
    parser.add_argument(
        "--findings", type=int, default=0, metavar="N", help="show N frames that went wrong, per program"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), metavar="N", help="measure N builds at a time")
    parser.add_argument("--cache", type=Path, default=CACHE)
    args = parser.parse_args(arguments)
    args.linker = args.linker or list(LINKERS)
    args.evidence = args.evidence or EVIDENCE
    return args


def _wanted(args: argparse.Namespace) -> dict[str, list[Kind]]:
    """The kinds of builds to measure, by program; what nobody has chosen takes twenty minutes."""
    usual = {
        "gen": [name for name in COMPILERS if not name.endswith("-noplt")],
        "ninja": ["clang", "gcc"],
        "virtual": ["clang", "gcc"],
        "forms": ["clang", "gcc", "clang-lto", "gcc-lto", "gcc-O0"],
        "statics": ["clang-lto", "clang-thinlto", "gcc-lto"],
    }
    compilers = usual if args.program is None else dict.fromkeys(args.program, list(COMPILERS))
    return {
        program: [kind for kind in KINDS if kind.compiler in (args.compiler or names) and kind.linker in args.linker]
        for program, names in compilers.items()
    }


def _row(label: str, tool: str, score: Score) -> str:
    merged = " ".join(f"{score.share(score.merged, kind):7.2f}" for kind in OUTCOMES)
    bars = " ".join(
        f"{sum(counts.values()):8} {score.share(counts, 'right'):7.2f}" for counts in (score.direct, score.known)
    )
    unmerged = score.other["unmerged, wrong"]
    return (
        f"{label:34} {tool:16} {sum(score.merged.values()):8} {merged} {bars} "
        f"{score.other['contradicted']:6} {score.other['unmerged']:8} {unmerged:6}"
    )


HEAD = (
    f"{'program, compiler, linker':34} {'tool':16} "
    f"{'merged':>8} {'right%':>7} {'narrow%':>7} {'none%':>7} {'WRONG%':>7} "
    f"{'direct':>8} {'right%':>7} {'known':>8} {'right%':>7} {'contr.':>6} {'unmerged':>8} {'wrong':>6}"
)


def _scores(result: Measurement) -> Iterator[tuple[str, Score]]:
    yield from result.peers.items()
    for each in result.results:
        if each.score:
            yield f"icf, {each.evidence}", each.score
        if each.without_vptr and each.with_vptr:
            yield f"icf, {each.evidence}, no vptr", each.without_vptr
            yield f"icf, {each.evidence}, vptr", each.with_vptr


def _as_json(result: Measurement) -> dict[str, object]:
    return {
        "program": result.program,
        "compiler": result.kind.compiler,
        "linker": result.kind.linker,
        "samples": dict(result.alignment.counts),
        "distinct_stacks": len(result.alignment.stacks),
        "merged_bodies": result.group_count,
        "problems": {each.evidence: each.problem for each in result.results if each.problem},
        "pass_s": {each.evidence: round(each.pass_s, 3) for each in result.results},
        "walks": {each.evidence: dict(each.walks.merged) for each in result.results},
        "records": {each.evidence: each.records.counts for each in result.results},
        "second_reader_disagrees": {each.evidence: each.disagreements for each in result.results},
        "resolve_s": {each.evidence: round(each.resolve_s, 3) for each in result.results},
        "scores": {
            tool: {
                "merged": dict(score.merged),
                "direct": dict(score.direct),
                "direct_known": dict(score.known),
                "by_kind_of_call": {way: dict(score.ways[way]) for way in WAYS if way in score.ways},
                "other": dict(score.other),
                "findings": dict(score.findings.most_common(50)),
            }
            for tool, score in _scores(result)
        },
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and print one table."""
    args = parse(arguments)
    if not args.json:
        print(HEAD, flush=True)
    with ProcessPoolExecutor(args.processes) as processes:
        results = list(measure_all(args, processes))
    if args.json:
        print(json.dumps([_as_json(result) for result in results], indent=1))
    else:
        print("\n".join([*table_lines(results), *way_lines(results)]))
    return int(any(each.misses_bar for result in results for each in result.results))


def measure_all(args: argparse.Namespace, processes: Executor) -> Iterator[Measurement]:
    """Yield what is measured of each program and kind of build, and print it as it comes."""
    command = [] if args.peers_only else shlex.split(args.tool) if args.tool else default_command()
    wanted = _wanted(args)
    programs = ", ".join(f"{program} in {len(kinds)} ways" for program, kinds in wanted.items())
    print(f"links with and without folding, runs both and compares: {programs}; in {args.cache}", file=sys.stderr)
    runs = {}
    for program, kinds in wanted.items():
        for kind in kinds:
            kind = replace(kind, evidence=tuple(each for each in kind.evidence if each in args.evidence))
            runs[program, kind] = processes.submit(_measure, args, program, kind, command)
    for (program, kind), run in runs.items():
        try:
            result = run.result()
        except Unavailable as reason:
            print(f"{program} {kind.compiler} {kind.linker}: left out: {reason}", file=sys.stderr)
            continue
        if not args.json:
            _print(result, args.findings)
        yield result


def _measure(args: argparse.Namespace, program: str, kind: Kind, command: list[str]) -> Measurement:
    built = build(PROGRAMS[program], kind.compiler, kind.linker, args.cache)
    kept = built.folder / "work"
    kept.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept) as folder:  # two runs at once do not meet
        work = Path(folder)
        result = measure(built, kind, command, work, args.cache, with_vptr=args.vptr, peers=not args.no_peers)
        for name in (f"{built.folded.name}.stacks", built.folded.name):  # for a look, and for tests.bench
            if (work / name).exists():
                (work / name).replace(kept / name)
    return result


def _print(result: Measurement, finding_count: int) -> None:
    label = f"{result.program} {result.kind.compiler} {result.kind.linker}"
    for tool, score in _scores(result):
        print(_row(label, tool, score))
    counts = ", ".join(f"{count} {what}" for what, count in sorted(result.alignment.counts.items()))
    print(f"    {len(result.alignment.stacks)} distinct stacks, {result.group_count} merged bodies; samples: {counts}")
    for line in result.alignment.rejected[:finding_count]:
        print(f"    {line}")
    for each in result.results:
        if each.score is None:
            print(f"    icf, {each.evidence}: failed: {each.problem}")
            continue
        bar = " MISSES THE BAR" if each.misses_bar else ""
        other = {what: count for what, count in each.score.other.items() if count}
        second = f"second reader: {each.disagreements or 'no'} frames differ"
        times = f"pass {each.pass_s:.2f} s, resolve {each.resolve_s:.2f} s"
        print(f"    icf, {each.evidence}: {times}; {second}; {other}{bar}")
        for kind, outcomes in each.records.counts.items():
            print(f"      tables: {kind}: {', '.join(f'{count} {what}' for what, count in sorted(outcomes.items()))}")
        print(f"      walks: {', '.join(f'{count} {what}' for what, count in each.walks.merged.items() if count)}")
        for finding in each.records.findings[:finding_count]:
            print(f"      {finding}")
        for asked, asked_score in (("", each.score), ("with vptr: ", each.with_vptr), ("walks: ", each.walks)):
            for finding, weight in asked_score.findings.most_common(finding_count) if asked_score else ():
                print(f"      {weight:6} x {asked}{finding}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
