"""The tables of the README.

By build: how many of the frames that were called directly have their name. One line stands for all programs and
compilers that were built so; from the lowest share to the highest.

By record: what became of all that the tables say, of each program, over its builds.

By kind of call: what became of all frames in merged functions, by how they were reached, of each program in those
builds where the callee of every direct call is on record, and in the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.truth.builds import LINKERS
from tests.truth.measure import Measurement, Result
from tests.truth.reached import WAYS
from tests.truth.records import KINDS
from tests.truth.records import OUTCOMES as JUDGED
from tests.truth.score import OUTCOMES

GIVEN = {  # mold: always the report
    "image": "nothing",
    "report": "nothing",
    "objects": "objects",
    "link": "`icf link`",
    "distinct": "`icf link --distinct`",
}
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
    "noplt": "`-fno-plt`",
    "aarch64-noplt": "AArch64, `-fno-plt`",
}
WALKS = "frames of walks"
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


def record_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """Markdown: how many records of all kinds are right, open, unseen and wrong; and frames of walks."""
    sums: dict[Row, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for each in measured:
        for result in each.results:
            for kind, counts in result.records.counts.items():
                sums[each.program, GIVEN[result.evidence]][kind].update(counts)
            sums[each.program, GIVEN[result.evidence]][WALKS].update(result.walks.merged)
    yield f"| program | pass is given | {' | '.join(KINDS)} | {WALKS} |"
    yield "|---" * (len(KINDS) + 3) + "|"
    for (program, given), by_kind in sums.items():
        cells = (" / ".join(f"{by_kind[kind][outcome]:,}" for outcome in JUDGED) for kind in KINDS)
        walks = " / ".join(f"{by_kind[WALKS][outcome]:,}" for outcome in OUTCOMES)
        yield f"| {program} | {given} | {' | '.join(cells)} | {walks} |"


def _shares(results: Sequence[Result]) -> str:
    if not results:
        return ""
    if any(result.score is None for result in results):
        return "failed"
    shares = [result.score.share(result.score.direct, "right") for result in results if result.score]
    low, high = (percent(share) for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def percent(share: float) -> str:
    """Rounded down, so that 100 means all."""
    return f"{int(share * 10) / 10:g}"


def way_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """Markdown: all samples, and those at entries again with the vtable pointers of the objects on the stack."""
    sums: dict[tuple[str, bool], list[Ways]] = defaultdict(lambda: [defaultdict(Counter) for _ in range(3)])
    for each in measured:
        for result in each.results:
            key = (each.program, each.kind.names_every_direct_call(result.evidence))
            for into, score in zip(sums[key], (result.score, result.without_vptr, result.with_vptr), strict=True):
                for way, counts in score.ways.items() if score else ():
                    into[way].update(counts)
                    into["all"].update(counts)
    shares = " / ".join(OUTCOMES)
    for (program, is_known), columns in sums.items():
        callees = "every callee of a direct call on record" if is_known else "other builds"
        yield ""
        yield f"| {program}, {callees} | frames | {shares} | at entries | the same | with vptr |"
        yield "|---|---|---|---|---|---|"
        for way in (*WAYS, "all"):
            everything, without, with_vptr = (column[way] for column in columns)
            if everything:
                cells = (_outcomes(counts) for counts in (everything, without, with_vptr))
                yield "| {} | {:,} | {} | {:,} | {} | {} |".format(
                    way, everything.total(), next(cells), without.total(), *cells
                )


def _outcomes(counts: Counter[str]) -> str:
    frames = counts.total()
    return " / ".join(percent(100 * counts[kind] / frames) for kind in OUTCOMES) + " %" if frames else ""
