"""`make demo`: wrong names, the pass, right names, on a program linked while you watch.

A shop's little service samples its own heap allocations. Folding left one body of `List<Order>::grow`,
`List<Payment>::grow` and `List<Session>::grow`, and likewise of their callers, so most frames of its stacks have
several names. Printed are the commands as they run, what a symbolizer says today, and what `icf resolve` says,
each compared with the truth from a link without folding.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path

from demo.program import Recording, build, can_build, checked_in, frames_of
from icf.demangle import demangle

WORK = Path(__file__).resolve().parent.parent / ".cache" / "demo"
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
RED, GREEN, BOLD, DIM = 31, 32, 1, 2
NAME_WIDTH = 34


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)

    title("One set of objects, linked with and without folding")
    if can_build():
        program = build(WORK, run)
    else:
        print("no g++ and gold here: takes the program that testdata holds")
        program = checked_in()
        program = Recording(Path(shutil.copy2(program.image, WORK / "shop")), program.stacks, program.truth)

    title("Today: the stack of each sampled allocation, as addr2line names it")
    today = [symbolized(program.image, stack) for stack in program.stacks]
    wrong_today = show(program, today)

    title("The pass writes which function calls which into the program")
    print(run(["icf", "pass", "shop"]), end="")
    excerpt(run(["icf", "dump", "shop"]), 24)

    title("Now: the same stacks of the same program")
    (WORK / "stacks").write_text("\n".join(program.stacks) + "\n")
    answers = run(["icf", "resolve", "-e", "shop", "--out", "json", "stacks"])
    frames = [json.loads(line)["frames"] for line in answers.splitlines()]
    resolved = [[frame["linkage_name"] for frame in stack] for stack in frames]
    wrong_now = show(program, resolved)

    frame_count = sum(name is not None for name in chain.from_iterable(program.truth))
    print(f"\nwrong or missing names in {frame_count} frames: {wrong_today} today, {wrong_now} with icf")
    return 0 if wrong_now == 0 else 1


def show(program: Recording, named: Sequence[Sequence[str | None]]) -> int:
    """Print stacks as `named`, with the truth where a name is wrong; return how many are."""
    wrong = 0
    for number, (stack, names, truth) in enumerate(zip(program.stacks, named, program.truth, strict=True), 1):
        print(f"\n  stack {number}")
        for vaddr, name, true_name in zip(frames_of(stack), names, truth, strict=True):
            if vaddr is None or true_name is None:
                continue
            mark = paint("right", GREEN)
            if name != true_name:
                wrong += 1
                mark = paint("WRONG", RED) + f" it is {demangle(true_name)}"
            print(f"    {vaddr:#06x}  {demangle(name) if name else '?':<{NAME_WIDTH}}{mark}")
    return wrong


def symbolized(image: Path, stack: str) -> list[str | None]:
    """The names that a symbolizer gives; it is asked for the byte before each return address, as it should be."""
    names: list[str | None] = []
    for idx, vaddr in enumerate(frames_of(stack)):
        inside = None if vaddr is None else vaddr - (idx > 0)
        names.append(None if inside is None else symbolizer(image, inside))
    return names


def symbolizer(image: Path, vaddr: int) -> str:
    """addr2line's name of the function at `vaddr`, the one that the others were inlined into."""
    done = subprocess.run(
        ["addr2line", "-f", "-i", "-e", image, f"{vaddr:#x}"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-2]


def run(command: Sequence[str]) -> str:
    """Show and run `command` in the demo's folder; return what it printed."""
    print(paint("$ " + shlex.join(command), DIM))
    sys.stdout.flush()
    if command[0] == "icf":
        command = [sys.executable, "-m", *command]
    done = subprocess.run(command, cwd=WORK, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"demo: {command[0]} failed with status {done.returncode}")
    return done.stdout


def excerpt(text: str, line_count: int) -> None:
    lines = text.splitlines()
    print("\n".join(islice(lines, line_count)))
    if len(lines) > line_count:
        print(paint(f"... {len(lines) - line_count} more lines", DIM))


def title(text: str) -> None:
    print("\n" + paint(text, BOLD))


def paint(text: str, code: int) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


if __name__ == "__main__":
    raise SystemExit(main())
