"""Accuracy at every instruction.

    python -m tests.truth.stepped                                     every theme in every build
    python -m tests.truth.stepped --theme tails --compiler gcc --linker gold --findings 10

Exits with 1 if a name is wrong. The frames are those of distinct stacks, each counted once.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.truth.kinds import LINKED_TWICE
from tests.truth.programs import CACHE, Unavailable
from tests.truth.stepped.align import Diverged
from tests.truth.stepped.builds import COMPILERS, EVIDENCE, FEW, build
from tests.truth.stepped.measure import Result, measure
from tests.truth.stepped.score import OUTCOMES, Score, share
from tests.truth.stepped.stepper import RunError
from tests.truth.stepped.themes import THEMES, Theme
from tests.truth.tool import default_command

HEAD = (
    f"{'theme, compiler, linker, evidence':44} {'steps':>8} {'stacks':>7} {'frames':>8} {'merged':>8} "
    f"{'right%':>7} {'narrow%':>7} {'open%':>7} {'none%':>7} {'WRONG':>6} {'contr.':>6} {'of unm.':>8} {'WRONG':>6}"
)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.truth.stepped", description="measure accuracy at every instruction")
    parser.add_argument("--theme", action="append", choices=sorted(THEMES))
    parser.add_argument("--compiler", action="append", help="beginning of a name: " + ", ".join(COMPILERS))
    parser.add_argument("--linker", action="append", choices=sorted(EVIDENCE), help="lldr: lld --emit-relocs")
    parser.add_argument("--evidence", action="append", choices=("image", "report", "objects", "link", LINKED_TWICE))
    parser.add_argument("--tool", help="command of the tool under test (default: icf beside this Python)")
    parser.add_argument("--findings", type=int, default=3, metavar="N", help="show N frames that went wrong, per row")
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser.parse_args(arguments)


def _row(label: str, result: Result | None, score: Score) -> str:
    steps = f"{result.alignment.step_count:8} {len(result.alignment.stacks):7}" if result else f"{'':16}"
    shares = " ".join(f"{share(score.merged, outcome):7.2f}" for outcome in OUTCOMES[:-1])
    return (
        f"{label:44} {steps} {score.frame_count:8} {score.merged.total():8} {shares} {score.merged['wrong']:6} "
        f"{score.contradicted:6} {share(score.unmerged, 'right'):8.2f} {score.unmerged['wrong']:6}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and print a table."""
    args = _parse(arguments)
    command = shlex.split(args.tool) if args.tool else default_command()
    totals: defaultdict[tuple[str, str, str], Score] = defaultdict(Score)
    is_bad = False
    print(HEAD, flush=True)
    for name in args.theme or THEMES:
        theme = THEMES[name]
        for compiler, linker in _builds(theme, args):
            label = f"{name} {compiler} {linker}"
            evidences = [
                each for each in (*EVIDENCE[linker], LINKED_TWICE) if each in (args.evidence or EVIDENCE[linker])
            ]
            try:
                with tempfile.TemporaryDirectory() as work:
                    result = measure(build(theme, compiler, linker, args.cache), evidences, command, Path(work))
            except Unavailable as reason:
                print(f"{label}: left out: {reason}")
                continue
            except (RunError, Diverged) as error:
                print(f"{label}: FAILED: {error}", flush=True)
                is_bad = True
                continue
            is_bad |= result.is_bad
            for evidence, problem in result.problems.items():
                print(f"{label} {evidence}: FAILED: {problem}", flush=True)
            for evidence, score in result.scores.items():
                totals[theme.language, linker, evidence].add(score)
                print(_row(f"{label} {evidence}", result, score), flush=True)
                for finding, line in list(score.findings.items())[: args.findings]:
                    print(f"    {finding}\n        {line}")
    for key, score in sorted(totals.items()):
        print(_row(f"all {' '.join(key)}", None, score))
    return int(is_bad)


def _builds(theme: Theme, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Compilers and linkers for a theme, of those that were asked for."""
    return [
        (name, linker)
        for name, compiler in COMPILERS.items()
        if compiler.compiles(theme.language)
        if not theme.compilers or name.startswith(theme.compilers)
        if theme.extent == "all" or name in FEW
        if not args.compiler or name.startswith(tuple(args.compiler))
        for linker in compiler.linkers
        if not args.linker or linker in args.linker
    ]


if __name__ == "__main__":
    sys.exit(main())
