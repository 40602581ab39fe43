"""The tool under test, driven through its command line only."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.truth.align import Stack

TIMEOUT_S = 900


class ToolError(Exception):
    """The tool failed; the text is its last words."""


@dataclass(frozen=True, slots=True)
class Answer:
    verdict: str
    name: str | None  # linkage name, or the name where a function has no other
    candidates: tuple[str, ...]


def default_command() -> list[str]:
    """`icf` of the environment that runs this."""
    script = Path(sys.executable).with_name("icf")
    return [str(script)] if script.exists() else [sys.executable, "-c", "import icf.cli, sys; sys.exit(icf.cli.main())"]


def run_command(command: Sequence[str], folder: Path | None = None) -> str:
    """What a command of the tool prints; raises ToolError."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"no end after {TIMEOUT_S} s: {' '.join(command)}") from error
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise ToolError(words[-1])
    return done.stdout


def run_pass(command: Sequence[str], image: Path, out: Path, options: Sequence[str] = ()) -> float:
    """Link pass; returns its wall time in seconds."""
    begin_s = time.perf_counter()
    run_command([*command, "pass", str(image), "-o", str(out), *options])
    return time.perf_counter() - begin_s


def run_link(command: Sequence[str], link_command: Sequence[str], folder: Path, options: Sequence[str] = ()) -> float:
    """A link with the pass in it, in `folder`; returns the wall time in seconds."""
    begin_s = time.perf_counter()
    run_command([*command, "link", "--strict", *options, "--", *link_command], folder)
    return time.perf_counter() - begin_s


def stack_line(stack: Stack, weight: int = 1, with_vptr: bool = False) -> str:
    words = [f"{frame.pc:#x}" if frame else "?" for frame in stack.frames]
    for row, vptr in stack.vptrs if with_vptr else ():
        words[row] += f"@vptr={vptr:#x}"
    return " ".join(words) + (f" x{weight}" if weight > 1 else "")


def resolve(
    command: Sequence[str],
    image: Path,
    stacks: Iterable[Stack],
    work: Path,
    with_vptr: bool = False,
    *,
    second_reader: bool = False,
    options: Sequence[str] = (),
) -> tuple[list[list[Answer]], float]:
    """Answers in the order of the stacks, and the wall time in seconds."""
    lines = [stack_line(stack, with_vptr=with_vptr) for stack in stacks]
    text = work / f"{image.name}.stacks"
    text.write_text("".join(line + "\n" for line in lines))
    begin_s = time.perf_counter()
    options = ["--format", "pcs", "--out", "json", *options, *(["--second-reader"] if second_reader else [])]
    output = run_command([*command, "resolve", "-e", str(image), *options, str(text)])
    wall_s = time.perf_counter() - begin_s
    answers = [
        [
            Answer(frame["verdict"], frame["linkage_name"] or frame["name"], tuple(frame.get("candidates") or ()))
            for frame in json.loads(line)["frames"]
        ]
        for line in output.splitlines()
    ]
    if len(answers) != len(lines):
        raise ToolError(f"{len(answers)} answers to {len(lines)} stacks")
    return answers, wall_s
