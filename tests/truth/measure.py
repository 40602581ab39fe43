"""One program, measured: record both links, align, ask the tool and its peers, score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from tests.truth.align import Alignment, Stack, align
from tests.truth.builds import Build
from tests.truth.callsites import call_sites_with_origin
from tests.truth.folding import Folding, match_images
from tests.truth.kinds import LINKED_TWICE, Kind, add_tables
from tests.truth.peers import PEERS
from tests.truth.reached import Reached
from tests.truth.record import AARCH64, NATIVE, Sampler, Sampling, build_sampler
from tests.truth.records import Records, judge_records
from tests.truth.score import Score, score_answers, score_names
from tests.truth.symbols import read_functions
from tests.truth.tool import Answer, ToolError, resolve
from tests.truth.walks import walk

SECOND_READER_STACKS = 100
WALKS = 2000


@dataclass
class Result:
    """What the tool under test made of one program with one evidence."""

    evidence: str
    score: Score | None = None
    problem: str = ""  # why there is no score
    without_vptr: Score | None = None  # of the samples at entries alone, where objects are known
    with_vptr: Score | None = None  # of the same, when the tool is told of them
    is_bound: bool = True  # whether every known direct call must be named
    pass_s: float = 0.0
    resolve_s: float = 0.0
    disagreements: int = 0  # frames of which the second reader says something else
    records: Records = field(default_factory=Records)
    walks: Score = field(default_factory=Score)

    @property
    def is_wrong(self) -> bool:
        """A wrong name or record, or two readers that disagree."""
        scores = [score for score in (self.score, self.with_vptr, self.walks) if score is not None]
        return bool(self.disagreements or self.records.findings) or any(
            score.merged["wrong"] or score.other["unmerged, wrong"] for score in scores
        )

    @property
    def misses_bar(self) -> bool:
        """No answer, a wrong one, or a direct call without a name where the evidence says it."""
        if self.score is None or self.is_wrong:
            return True
        return self.is_bound and self.score.share(self.score.known, "right") < 100


@dataclass
class Measurement:
    program: str
    kind: Kind
    alignment: Alignment
    group_count: int
    results: list[Result] = field(default_factory=list)  # by evidence
    peers: dict[str, Score] = field(default_factory=dict)  # by tool


def sample_both(build: Build, folded: Path, work: Path, cache: Path) -> tuple[Alignment, int]:
    """All runs of the program unfolded and `folded`, each sampled in three ways; how many bodies are merged."""
    machine = AARCH64 if build.is_aarch64 else NATIVE
    sampler = Sampler(build_sampler(cache, machine), machine)
    folding = _match(build, folded, build.report.read_text())
    groups = folding.groups()
    breaks = [work / "unfolded.breaks", work / "folded.breaks"]
    with breaks[0].open("w") as unfolded_list, breaks[1].open("w") as folded_list:
        for group, (body, originals) in enumerate(groups):
            print(body, group, file=folded_list)
            for start in originals:
                print(start, group, file=unfolded_list)
    gap = build.program.gap
    ways = [(Sampling(gap=gap), False)]
    if machine.has_traps:
        ways += [(Sampling(gap=50), True), (Sampling(gap=gap, steps=150), False)]
    alignment = Alignment()
    reached = Reached(folding.originals)
    run_folder = work / "run"  # other processes may run the program, too
    for folder, arguments in build.program.runs(build.source, run_folder):
        for sampling, is_entries in ways:
            recordings = [
                sampler.record(
                    image,
                    arguments,
                    work / f"{image.name}.samples",
                    sampling,
                    breaks[row] if is_entries else None,
                    folder,
                )
                for row, image in enumerate((build.unfolded, folded))
            ]
            align(folding, recordings[0], recordings[1], alignment, reached)
    return alignment, len(groups)


def measure(
    build: Build, kind: Kind, command: Sequence[str], work: Path, cache: Path, *, with_vptr: bool, peers: bool
) -> Measurement:
    """Everything about one program built one way; `command` is the tool under test, empty for peers only."""
    work.mkdir(parents=True, exist_ok=True)
    alignment, group_count = sample_both(build, build.folded, work, cache)
    measurement = Measurement(build.program.name, kind, alignment, group_count)
    stacks = alignment.stacks
    if peers:
        for name, ask in PEERS.items():
            names = ask(build.folded, stacks)
            if names is not None:
                measurement.peers[name] = score_names(stacks, names)
    for evidence in kind.evidence if command else ():
        stacks = alignment.stacks
        result = Result(evidence)
        measurement.results.append(result)
        known = None if kind.names_every_direct_call(evidence) else call_sites_with_origin(build.unfolded)
        result.is_bound = kind.names_every_call_site(evidence)
        passed = work / build.folded.name
        try:
            result.pass_s = add_tables(command, build, evidence, passed)
            if _functions(passed) != _functions(build.folded):  # --emit-relocs moves things a little
                stacks = sample_both(build, passed, work, cache)[0].stacks
            # what the report says was folded is not what a link folds that keeps functions apart
            folding = _match(build, passed, build.report.read_text() if evidence != LINKED_TWICE else "")
            result.records = judge_records(passed, folding)
            walks = walk(folding, WALKS)
            result.walks = score_answers(walks.items(), resolve(command, passed, walks, work)[0], None)
            answers, result.resolve_s = resolve(command, passed, stacks, work)
            result.score = score_answers(stacks.items(), answers, known)
            result.disagreements = disagreements(command, passed, stacks, work, answers)
            entries = {stack: weight for stack, weight in stacks.items() if stack.has_objects}
            if with_vptr and entries:
                same = [answer for stack, answer in zip(stacks, answers, strict=True) if stack.has_objects]
                result.without_vptr = score_answers(entries.items(), same, known)
                answers, _ = resolve(command, passed, entries, work, with_vptr=True)
                result.disagreements += disagreements(command, passed, entries, work, answers, with_vptr=True)
                result.with_vptr = score_answers(entries.items(), answers, known)
        except ToolError as error:
            result.problem = str(error)
    return measurement


def disagreements(
    command: Sequence[str],
    image: Path,
    stacks: Iterable[Stack],
    work: Path,
    answers: list[list[Answer]],
    *,
    with_vptr: bool = False,
) -> int:
    """Count the frames for which the second reader's verdict, name or candidates are not those of `answers`.

    It is asked about some SECOND_READER_STACKS of the stacks: it takes longer than everything else.
    """
    step = 1 + len(answers) // SECOND_READER_STACKS
    apart = work / "second-reader"  # all stacks stay in `work`, for tests.bench
    apart.mkdir(exist_ok=True)
    others, _ = resolve(command, image, [*stacks][::step], apart, with_vptr, second_reader=True)
    return sum(one != other for one, other in zip(chain(*answers[::step]), chain(*others), strict=True))


def _match(build: Build, folded: Path, report: str) -> Folding:
    return match_images(build.unfolded, folded, report, build.folder)


def _functions(image: Path) -> set[tuple[int, str]]:
    return {(function.start, function.key) for function in read_functions(image).functions}
