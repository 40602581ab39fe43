"""One program, measured: record both links, align, ask the tool and its peers, score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.truth.align import Alignment, align
from tests.truth.callsites import call_sites_with_origin, has_relocations
from tests.truth.folding import match_images
from tests.truth.peers import PEERS
from tests.truth.programs import Build
from tests.truth.record import Sampling, build_sampler, record
from tests.truth.score import Score, score_answers, score_names
from tests.truth.tool import ToolError, resolve, run_pass


@dataclass
class Measurement:
    label: str
    alignment: Alignment
    group_count: int
    scores: dict[str, Score] = field(default_factory=dict)  # by tool
    problem: str = ""  # why the tool under test has no score
    pass_s: float = 0.0
    resolve_s: float = 0.0


def sample_both(build: Build, work: Path, cache: Path) -> tuple[Alignment, int]:
    """All runs of the program, each sampled in three ways; how many bodies are merged."""
    library = build_sampler(cache)
    folding = match_images(build.unfolded, build.folded, build.report.read_text(), build.folded.parent)
    groups = folding.groups()
    breaks = [work / "unfolded.breaks", work / "folded.breaks"]
    with breaks[0].open("w") as unfolded, breaks[1].open("w") as folded:
        for group, (body, originals) in enumerate(groups):
            print(body, group, file=folded)
            for start in originals:
                print(start, group, file=unfolded)
    gap = build.program.gap
    ways = [(Sampling(gap=50), True), (Sampling(gap=gap), False), (Sampling(gap=gap, steps=150), False)]
    alignment = Alignment()
    run_folder = cache / build.program.name / "run"
    for folder, arguments in build.program.runs(build.source, run_folder):
        for sampling, is_entries in ways:
            recordings = [
                record(
                    library,
                    image,
                    arguments,
                    work / f"{image.name}.samples",
                    sampling,
                    breaks[row] if is_entries else None,
                    folder,
                )
                for row, image in enumerate((build.unfolded, build.folded))
            ]
            align(folding, recordings[0], recordings[1], alignment)
    return alignment, len(groups)


def measure(
    build: Build, command: Sequence[str], work: Path, cache: Path, *, with_vptr: bool, peers: bool
) -> Measurement:
    """Everything about one program; `command` is the tool under test, empty for peers only."""
    work.mkdir(parents=True, exist_ok=True)
    alignment, group_count = sample_both(build, work, cache)
    result = Measurement(build.label, alignment, group_count)
    stacks = alignment.stacks
    if peers:
        for name, ask in PEERS.items():
            names = ask(build.folded, stacks)
            if names is not None:
                result.scores[name] = score_names(stacks, names)
    if not command:
        return result
    known = None
    folding_table = match_images(build.unfolded, build.folded, "").originals
    if not has_relocations(folding_table):
        known = call_sites_with_origin(build.unfolded)
    passed = work / build.folded.name
    try:
        report = build.report if build.linker == "mold" else None  # the only linker that leaves too little in the image
        result.pass_s = run_pass(command, build.folded, passed, report)
        answers, result.resolve_s = resolve(command, passed, stacks, work)
        result.scores["icf"] = score_answers(stacks, answers, known)
        if with_vptr:
            answers, _ = resolve(command, passed, stacks, work, with_vptr=True)
            result.scores["icf, vptr"] = score_answers(stacks, answers, known)
    except ToolError as error:
        result.problem = str(error)
    return result
