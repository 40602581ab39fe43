"""One theme in one build, by every evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from tests.truth.folding import Folding, match_images
from tests.truth.kinds import LINKED_TWICE
from tests.truth.stepped.align import Alignment, Stack, align
from tests.truth.stepped.ask import add_tables, incomplete_bodies, resolve, stack_line
from tests.truth.stepped.builds import Build
from tests.truth.stepped.relocations import read_references
from tests.truth.stepped.score import Score, score_answers
from tests.truth.stepped.stepper import Recording, build_stepper, record
from tests.truth.tool import ToolError


@dataclass
class Result:
    build: Build
    alignment: Alignment
    scores: dict[str, Score] = field(default_factory=dict)  # by evidence
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def is_bad(self) -> bool:
        return bool(self.problems) or any(score.wrong_count for score in self.scores.values())


def prepare(build: Build, folded: Path) -> Folding:
    """What the symbols and the linker's report say of the folding in an image."""
    return match_images(build.unfolded, folded, build.report.read_text(), build.folder)


def run_both(build: Build, folded: Path, folding: Folding, work: Path) -> tuple[Recording, Recording]:
    """Step the unfolded and the folded program. Raises Unavailable, RunError."""
    stepper = build_stepper(work)
    every = build.theme.signal_every
    return (
        record(stepper, build.unfolded, folding.originals, work, every),
        record(stepper, folded, folding.bodies, work, every),
    )


def measure(build: Build, evidences: Sequence[str], command: Sequence[str], work: Path) -> Result:
    """Step, ask, score. Raises Unavailable, RunError, Diverged."""
    result = Result(build, _step(build, build.folded, work))
    for evidence in evidences:
        image = work / build.folded.name
        try:
            add_tables(command, build, evidence, image)
            alignment = result.alignment
            if evidence == LINKED_TWICE:  # which folds less
                alignment = _step(build, image, work)
            forms = {
                form: {stack: stack_line(stack, less) for stack in asked} for form, asked, less in _forms(alignment)
            }
            answers = resolve(command, image, chain(*(lines.values() for lines in forms.values())), work)
            incomplete = incomplete_bodies(command, image)
        except ToolError as error:
            result.problems[evidence] = str(error)
            continue
        for form, lines in forms.items():
            result.scores[evidence + form] = score_answers(lines, answers, incomplete, alignment.body_of)
    return result


def _step(build: Build, folded: Path, work: Path) -> Alignment:
    folding = prepare(build, folded)
    return align(folding, read_references(build.unfolded), *run_both(build, folded, folding, work))


def _forms(alignment: Alignment) -> list[tuple[str, Iterable[Stack], int]]:
    """How stacks are asked: label, stacks, what is taken off return addresses."""
    return [
        ("", alignment.stacks, 0),
        (" less one", alignment.stacks, 1),
        *([(" with vptr", alignment.entries, 0)] if alignment.entries else []),
    ]
