"""The tables of the README.

By build: how many of the frames that were called directly have their name. One line stands for all programs and
compilers that were built so; from the lowest share to the highest.

By kind of call: what became of all frames in merged functions, by how they were reached, of each program in those
builds where the callee of every direct call is on record, and in the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.truth.builds import LINKERS
from tests.truth.measure import Measurement, Result
from tests.truth.reached import WAYS
from tests.truth.score import OUTCOMES

GIVEN = {"image": "nothing", "report": "nothing", "objects": "objects", "link": "`icf link`"}  # mold: always the report
SPELLED = {"lldr": "lld `--emit-relocs`"}
BUILDS = {
    "": "`-O2 -g`",
    "g1": "`-O2 -g1`",
    "g0": "`-O2`",
    "O0": "`-O0 -g`",
    "thinlto": "ThinLTO",
    "lto": "LTO",
    "fatlto": "LTO, `-ffat-lto-objects`",
    "split": "`-gsplit-dwarf`",
    "compressed": "`-gz`",
    "dwz": "packed by dwz",
    "aarch64": "AArch64",
}
Row = tuple[str, str]
Ways = defaultdict[str, Counter[str]]


def table_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """Markdown, and a line below it that says how much was measured."""
    cells: dict[Row, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for each in measured:
        for result in each.results:
            cells[BUILDS[each.kind.compiler.partition("-")[2]], GIVEN[result.evidence]][each.kind.linker].append(result)
    linkers = [linker for linker in LINKERS if any(linker in row for row in cells.values())]
    yield f"| build | pass is given | {' | '.join(SPELLED.get(linker, linker) for linker in linkers)} |"
    yield "|---" * (len(linkers) + 2) + "|"
    for (build, given), row in cells.items():
        yield f"| {build} | {given} | {' | '.join(_shares(row.get(linker, [])) for linker in linkers)} |"
    results = [result for each in measured for result in each.results]
    scores = [result.score for result in results if result.score]
    scores_with_vptr = [result.with_vptr for result in results if result.with_vptr]
    wrong = sum(score.merged["wrong"] + score.other["unmerged, wrong"] for score in (*scores, *scores_with_vptr))
    frames = sum(sum(score.merged.values()) for score in scores)
    yield f"{wrong} wrong names; {len(scores)} runs with {frames:,} frames in merged functions"


def _shares(results: Sequence[Result]) -> str:
    if not results:
        return ""
    if any(result.score is None for result in results):
        return "failed"
    shares = [result.score.share(result.score.direct, "right") for result in results if result.score]
    low, high = (_percent(share) for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _percent(share: float) -> str:
    """Rounded down, so that 100 means all."""
    return f"{int(share * 10) / 10:g}"


def way_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """Markdown; what is on the right of `with vptr` is for the same frames, asked with what their objects hold."""
    sums: dict[tuple[str, bool], tuple[Ways, Ways]] = defaultdict(lambda: (defaultdict(Counter), defaultdict(Counter)))
    for each in measured:
        for result in each.results:
            if result.score is None:
                continue
            key = (each.program, each.kind.names_every_direct_call(result.evidence))
            for into, score in zip(sums[key], (result.score, result.with_vptr or result.score), strict=True):
                for way, counts in score.ways.items():
                    into[way].update(counts)
    for (program, is_known), (without, with_vptr) in sums.items():
        callees = "every callee of a direct call on record" if is_known else "other builds"
        yield ""
        yield f"| {program}, {callees} | frames | {' | '.join(OUTCOMES)} | with vptr: {' | '.join(OUTCOMES)} |"
        yield "|---" * (2 * len(OUTCOMES) + 2) + "|"
        for ways in (without, with_vptr):
            ways["all"] = sum((ways[way] for way in WAYS), Counter())
        for way in (*WAYS, "all"):
            if frames := without[way].total():
                shares = (
                    _percent(100 * counts[way][kind] / frames) for counts in (without, with_vptr) for kind in OUTCOMES
                )
                yield f"| {way} | {frames:,} | {' | '.join(f'{share} %' for share in shares)} |"
