"""The table of the README: for each kind of build, how many of the frames that were called directly have their name.

One line stands for all programs and compilers that were built so; from the lowest share to the highest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.truth.builds import LINKERS
from tests.truth.measure import Measurement, Result

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
    scores = [result.score for each in measured for result in each.results if result.score]
    wrong = sum(score.merged["wrong"] + score.other["unmerged, wrong"] for score in scores)
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
