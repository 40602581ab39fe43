"""What `icf` answers to stacks, through its command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.truth.kinds import LINKED_TWICE
from tests.truth.stepped.align import Frame, Stack
from tests.truth.stepped.builds import Build
from tests.truth.tool import ToolError, run_command, run_link, run_pass


@dataclass(frozen=True, slots=True)
class Answer:
    verdict: str
    name: str | None  # linkage name
    text: str | None  # what is shown: all there is of a function without linkage name
    candidates: tuple[str, ...]
    file: str  # of the frame's line


def add_tables(command: Sequence[str], build: Build, evidence: str, out: Path) -> None:
    """Make `out` from the folded image with the pass. Raises ToolError."""
    if evidence == "link":
        run_link(command, build.link_command("all", out), build.folder)
    elif evidence == LINKED_TWICE:
        run_link(command, build.link_command("all", out), build.folder, ["--distinct"])
    elif evidence == "report":
        run_pass(command, build.folded, out, ["--icf-report", str(build.report)])
    elif evidence == "objects":
        run_pass(command, build.folded, out, ["--objects", *build.objects])
    else:
        run_pass(command, build.folded, out)


def incomplete_bodies(command: Sequence[str], image: Path) -> frozenset[int]:
    """Addresses of the bodies of which the tables say that there may be more functions than they list."""
    dumped = json.loads(run_command([*command, "dump", "--folds", "--json", str(image)]))
    return frozenset(
        int(fold["address"], 16) for fold in dumped.get("folds", ()) if "members-complete" not in fold["flags"]
    )


def stack_line(stack: Stack, less: int = 0) -> str:
    """The stack in `--format pcs`, return addresses less `less`."""
    words = [_word(frame, depth, less) for depth, frame in enumerate(stack.frames)]
    for row, vptr in stack.vptrs:
        words[row] += f"@vptr={vptr:#x}"
    return " ".join(words)


def _word(frame: Frame | None, depth: int, less: int) -> str:
    if frame is None:
        return "?"
    if depth and frame.is_exact:  # a signal interrupted it
        return f"{frame.pc:#x}!"
    return f"{frame.pc - (less if depth else 0):#x}"


def resolve(command: Sequence[str], image: Path, lines: Iterable[str], work: Path) -> dict[str, list[Answer]]:
    """The answers to each distinct line."""
    asked = list(dict.fromkeys(lines))
    text = work / f"{image.name}.stacks"
    text.write_text("".join(line + "\n" for line in asked))
    options = ["--format", "pcs", "--out", "json", "--cache-dir", str(work / "symcaches")]
    output = run_command([*command, "resolve", "-e", str(image), *options, str(text)]).splitlines()
    if len(output) != len(asked):
        raise ToolError(f"{len(output)} answers to {len(asked)} stacks")
    return {
        line: [
            Answer(
                frame["verdict"],
                frame["linkage_name"],
                frame["name"],
                tuple(frame.get("candidates") or ()),
                frame.get("file") or "",
            )
            for frame in json.loads(answer)["frames"]
        ]
        for line, answer in zip(asked, output, strict=True)
    }
