"""Accuracy on damaged stacks.

    python -m tests.truth.damaged                          the usual programs, with and without frame pointers
    python -m tests.truth.damaged --program cppcheck --compiler clang-fp --findings 20

Exits with 1 if a name is wrong where the mode covers the damage: `none` whole and cut stacks, `any` one lost frame,
`fp` what a walk along frame pointers loses.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.truth.align import Stack
from tests.truth.builds import COMPILERS, LINKERS, Build, build
from tests.truth.damaged.damages import Damage, Damaged, damages
from tests.truth.damaged.frame_pointers import FramePointers
from tests.truth.kinds import EVIDENCE, add_tables
from tests.truth.measure import sample_both
from tests.truth.programs import CACHE, PROGRAMS, Unavailable
from tests.truth.score import OUTCOMES, Score, score_answers
from tests.truth.tool import ToolError, default_command, resolve

MODES = ("none", "fp", "any")
COVERED = {
    "whole": MODES,
    "cut to 8": MODES,
    "one lost": ("any",),
    "one of 4 lost": ("any",),
    "lost at entry": ("fp", "any"),
    "frame pointers": ("fp",),
}
USUAL = (("gen", "clang-fp"), ("virtual", "clang"), ("virtual", "clang-fp"), ("virtual", "gcc-fp"))
HEAD = (
    f"{'program, compiler, linker':28} {'damage':15} {'mode':5} {'stacks':>7} {'merged':>8} "
    f"{'right%':>7} {'narrow%':>7} {'open%':>7} {'contr.%':>8} {'WRONG':>6} {'of unm.':>7}"
)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.truth.damaged", description="measure accuracy on damaged stacks")
    parser.add_argument("--program", action="append", choices=sorted(PROGRAMS))
    parser.add_argument("--compiler", action="append", choices=sorted(COMPILERS))
    parser.add_argument("--linker", choices=sorted(LINKERS), default="lldr")
    parser.add_argument("--evidence", choices=EVIDENCE, default="image")
    parser.add_argument("--damage", action="append", help="beginning of a name")
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("--stacks", type=int, default=10000, metavar="N", help="distinct stacks of a program, at most")
    parser.add_argument("--no-vptr", action="store_true", help="without vtable pointers of objects")
    parser.add_argument("--findings", type=int, default=0, metavar="N", help="show N frames that went wrong, per row")
    parser.add_argument("--tool", help="command of the tool under test (default: icf beside this Python)")
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and print a table."""
    args = _parse(arguments)
    command = shlex.split(args.tool) if args.tool else default_command()
    chosen = [(program, compiler) for program in args.program or () for compiler in args.compiler or ("clang-fp",)]
    is_bad = False
    print(HEAD, flush=True)
    for program, compiler in chosen or USUAL:
        try:
            built = build(PROGRAMS[program], compiler, args.linker, args.cache)
        except Unavailable as reason:
            print(f"{program} {compiler} {args.linker}: left out: {reason}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(dir=built.folder) as folder:
            is_bad |= _measure(args, command, built, Path(folder))
    return int(is_bad)


def _measure(args: argparse.Namespace, command: list[str], built: Build, work: Path) -> bool:
    """Print the rows of one program; return whether a name is wrong in a mode that covers the damage."""
    passed = work / built.folded.name
    add_tables(command, built, args.evidence, passed)
    stacks = some(sample_both(built, passed, work, args.cache)[0].stacks, args.stacks)
    pointers = FramePointers(passed) if built.compiler.endswith("-fp") else None
    is_bad = False
    for name, damage in damages(stacks, pointers).items():
        if args.damage and not name.startswith(tuple(args.damage)):
            continue
        damaged = damage_all(stacks, damage)
        for mode in args.mode or MODES:
            try:
                score = measure(command, passed, damaged, work, mode, with_vptr=not args.no_vptr)
            except ToolError as error:
                print(f"{name}, {mode}: {error}", file=sys.stderr)
                is_bad = True
                continue
            label = f"{built.program.name} {built.compiler} {built.linker}"
            _print(label, name, mode, len(damaged), score, args.findings)
            is_wrong = score.merged["wrong"] or score.other["unmerged, wrong"]
            is_bad |= bool(is_wrong) and mode in COVERED.get(name, ())
    return is_bad


def some(stacks: Mapping[Stack, int], limit: int) -> dict[Stack, int]:
    """At most so many of the stacks, the same ones each time."""
    found = list(stacks.items())
    return dict(found if len(found) <= limit else Random(1).sample(found, limit))


def damage_all(stacks: Mapping[Stack, int], damage: Damage) -> Counter[Damaged]:
    """All stacks that can have the damage, with it."""
    found = Counter[Damaged]()
    random = Random(2)
    for stack, weight in stacks.items():
        damaged = damage(stack, random)
        if damaged is not None:
            found[damaged] += weight
    return found


def measure(
    command: list[str], image: Path, damaged: Mapping[Damaged, int], work: Path, mode: str, *, with_vptr: bool
) -> Score:
    """Ask the tool, and compare."""
    options = ["--lossy", mode]
    answers, _ = resolve(command, image, [each.asked for each in damaged], work, with_vptr, options=options)
    return score_answers([(each.truth, weight) for each, weight in damaged.items()], answers, None)


def _print(label: str, damage: str, mode: str, stack_count: int, score: Score, finding_count: int) -> None:
    right, narrowed, none, _ = (score.share(score.merged, outcome) for outcome in OUTCOMES)
    merged = score.merged.total()
    contradicted = 100 * score.other["contradicted"] / merged if merged else 0.0
    print(
        f"{label:28} {damage:15} {mode:5} {stack_count:7} {merged:8} {right:7.2f} {narrowed:7.2f} "
        f"{none - contradicted:7.2f} {contradicted:8.2f} {score.merged['wrong']:6} {score.other['unmerged, wrong']:7}",
        flush=True,
    )
    wrong = [each for each in score.findings.most_common() if each[0].startswith("wrong")]
    for finding, weight in wrong[:finding_count]:
        print(f"  {weight:6} x {finding}")


if __name__ == "__main__":
    sys.exit(main())
