"""The table of the README: for each kind of build, how many of the frames that were called directly have their name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.truth.kinds import EVIDENCE
from tests.truth.measure import Measurement, Result

HEAD = ("program", "compiler", "linker", "merged frames", "wrong", *EVIDENCE)


def table_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """Markdown. The last columns: share of direct calls named, by what the pass was given."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|---" * len(HEAD) + "|"
    for each in measured:
        results = {result.evidence: result for result in each.results}
        scores = [result.score for result in each.results if result.score]
        frames = max((sum(score.merged.values()) for score in scores), default=0)
        wrong = sum(score.merged["wrong"] + score.other["unmerged, wrong"] for score in scores)
        cells = [each.program, each.kind.compiler, each.kind.linker, f"{frames:,}", str(wrong)]
        yield f"| {' | '.join([*cells, *(_share(results.get(evidence)) for evidence in EVIDENCE)])} |"


def _share(result: Result | None) -> str:
    if result is None:
        return ""
    if result.score is None:
        return "failed"
    return f"{result.score.share(result.score.direct, 'right'):.1f} %"
