"""Accuracy of `icf pass` and `icf resolve` against a measured truth.

    python -m tests.truth                    gen, ninja, cppcheck; clang and gcc; gold and lld --emit-relocs
    python -m tests.truth --quick            gen and ninja, clang and gcc, where the sources can be had
    python -m tests.truth --program gen --compiler clang --linker lld --findings 20

Exits with 1 if a name was wrong or a direct frame has none.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path

from tests.truth.measure import Measurement, measure
from tests.truth.programs import CACHE, COMPILERS, LINKERS, PROGRAMS, Unavailable, build
from tests.truth.score import KINDS, Score
from tests.truth.tool import default_command


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.truth", description="measure accuracy against the truth")
    parser.add_argument("--program", action="append", choices=sorted(PROGRAMS))
    parser.add_argument("--compiler", action="append", choices=sorted(COMPILERS))
    parser.add_argument("--linker", action="append", choices=sorted(LINKERS), help="lldr: lld --emit-relocs")
    parser.add_argument("--quick", action="store_true", help="generated program and ninja only")
    parser.add_argument("--tool", help="command of the tool under test (default: icf beside this Python)")
    parser.add_argument("--peers-only", action="store_true", help="leave out the tool under test")
    parser.add_argument("--no-peers", action="store_true", help="the tool under test alone")
    parser.add_argument("--vptr", action="store_true", help="ask again with the vtable pointer of the innermost frame")
    parser.add_argument(
        "--findings", type=int, default=0, metavar="N", help="show N frames that went wrong, per program"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser.parse_args(arguments)


def _row(label: str, tool: str, score: Score) -> str:
    merged = " ".join(f"{score.share(score.merged, kind):7.2f}" for kind in KINDS)
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


def _as_json(result: Measurement) -> dict[str, object]:
    return {
        "label": result.label,
        "samples": dict(result.alignment.counts),
        "distinct_stacks": len(result.alignment.stacks),
        "merged_bodies": result.group_count,
        "problem": result.problem,
        "pass_s": round(result.pass_s, 3),
        "resolve_s": round(result.resolve_s, 3),
        "scores": {
            tool: {
                "merged": dict(score.merged),
                "direct": dict(score.direct),
                "direct_known": dict(score.known),
                "other": dict(score.other),
                "findings": dict(score.findings.most_common(50)),
            }
            for tool, score in result.scores.items()
        },
    }


def _misses_bar(score: Score) -> bool:
    return bool(score.merged["wrong"] or score.other["unmerged, wrong"]) or score.share(score.known, "right") < 100


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and print one table."""
    args = _parse(arguments)
    programs = args.program or (["gen", "ninja"] if args.quick else ["gen", "ninja", "cppcheck"])
    compilers = args.compiler or sorted(COMPILERS)
    linkers = args.linker or ["gold", "lldr"]
    command = [] if args.peers_only else shlex.split(args.tool) if args.tool else default_command()
    results: list[Measurement] = []
    failed = False
    if not args.json:
        print(HEAD)
    for program in programs:
        for compiler in compilers:
            for linker in linkers:
                kept = args.cache / program / compiler / linker / "work"
                try:
                    built = build(PROGRAMS[program], compiler, linker, args.cache)
                except Unavailable as reason:
                    print(f"{program} {compiler} {linker}: left out: {reason}", file=sys.stderr)
                    continue
                kept.mkdir(exist_ok=True)
                with tempfile.TemporaryDirectory(dir=kept) as folder:  # two runs at once do not meet
                    work = Path(folder)
                    result = measure(built, command, work, args.cache, with_vptr=args.vptr, peers=not args.no_peers)
                    for name in (f"{built.folded.name}.stacks", built.folded.name):  # for a look, and for tests.bench
                        if (work / name).exists():
                            (work / name).replace(kept / name)
                results.append(result)
                failed |= bool(result.problem) or any(
                    _misses_bar(score) for tool, score in result.scores.items() if tool.startswith("icf")
                )
                if not args.json:
                    _print(result, args.findings)
    if args.json:
        print(json.dumps([_as_json(result) for result in results], indent=1))
    return 1 if failed else 0


def _print(result: Measurement, finding_count: int) -> None:
    for tool, score in sorted(result.scores.items(), reverse=True):
        print(_row(result.label, tool, score))
    counts = ", ".join(f"{count} {what}" for what, count in sorted(result.alignment.counts.items()))
    print(f"    {len(result.alignment.stacks)} distinct stacks, {result.group_count} merged bodies; samples: {counts}")
    if result.problem:
        print(f"    icf failed: {result.problem}")
    for line in result.alignment.rejected[:finding_count]:
        print(f"    {line}")
    for tool, score in result.scores.items():
        if not tool.startswith("icf"):
            continue
        print(f"    {tool}: pass {result.pass_s:.2f} s, resolve {result.resolve_s:.2f} s; {dict(score.other)}")
        for finding, weight in score.findings.most_common(finding_count):
            print(f"      {weight:6} x {finding}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
