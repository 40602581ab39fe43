"""The figures of all benches in one form: a row is one figure of `icf`, beside the same one of something known.

A row's *share* is what `icf` takes of what the other takes: 0.5 is half as much time, memory or bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Figures = dict[str, Any]
GSYMUTIL, SYMBOLIZER, PERF = "llvm-gsymutil, 2 threads", "llvm-symbolizer", "perf script"
_COSTS = (("cpu_s", "processor time", "s"), ("wall_s", "time", "s"), ("peak_mb", "memory", "MB"))


class Row(NamedTuple):
    """One figure, in its unit; `other` is None where there is nothing to compare with."""

    what: str
    ours: float
    unit: str
    peer: str = ""
    other: float | None = None

    @property
    def share(self) -> float | None:
        if self.other is None or not self.ours or not self.other:
            return None
        return self.other / self.ours if self.unit.endswith("/s") else self.ours / self.other


def _costs(what: str, figures: Figures, ours: str, peers: dict[str, str]) -> Iterator[Row]:
    """Yield the costs of a command beside each peer, given by its name in the figures."""
    for field, text, unit in _COSTS:
        if f"{ours}_{field}" not in figures:
            continue
        found = {peer: figures[f"{name}_{field}"] for name, peer in peers.items() if f"{name}_{field}" in figures}
        for peer, other in found.items() or [("", None)]:
            yield Row(f"{what}: {text}", figures[f"{ours}_{field}"], unit, peer, other)


def rows_of_image(figures: Figures) -> Iterator[Row]:
    """Yield the rows of `tests.bench.image`; a part that failed or was not wanted has none."""
    parts = {name: part for name, part in figures.items() if isinstance(part, dict) and "problem" not in part}
    if scan := parts.get("scan"):
        yield Row("size of .debug_info", scan["debug_info_mb"], "MB")
        yield Row("scan of .debug_info, one thread", scan["one_thread_mb_per_s"], "MB/s")
        yield Row(f"scan of .debug_info, {scan['thread_count']} threads", scan["all_threads_mb_per_s"], "MB/s")
    if rewrite := parts.get("rewrite"):
        yield Row("a section added to the image", rewrite["rewrite_s"], "s", "copy of the file", rewrite["copy_s"])
    if passing := parts.get("pass"):
        yield from _costs("icf pass", passing, "pass", {"gsymutil": GSYMUTIL})
    if symcache := parts.get("symcache"):
        yield from _costs("symcache built", symcache, "build", {"gsymutil": GSYMUTIL, "symbolic": "symbolic"})
        for name, peer in (("gsym", GSYMUTIL), ("symbolic", "symbolic")):
            if f"{name}_bytes" in symcache:
                mb = symcache["file_bytes"] / 1e6
                yield Row("symcache: size of the file", mb, "MB", peer, symcache[f"{name}_bytes"] / 1e6)
        yield Row("addresses looked up", symcache["plain_per_s"] / 1e6, "M/s")
    if asking := parts.get("query"):
        peers = {"python": "python -c pass", "peer": SYMBOLIZER}
        yield from _costs("one address, a process of its own", asking, "query", peers)
    if writing := parts.get("symbolize"):
        for name, how in (("text", ""), ("json", ", as JSON"), ("candidates", ", all candidates")):
            yield from _costs(f"100,000 addresses on stdin{how}", writing, name, {"peer": SYMBOLIZER})
    if resolving := parts.get("resolve"):
        yield Row("icf resolve: stacks", resolving["stacks_per_s"], "stacks/s")
        yield Row("icf resolve: stacks, perhaps with gaps (--lossy fp)", resolving["lossy_stacks_per_s"], "stacks/s")
        yield Row("icf resolve: memory", resolving["resolve_peak_mb"], "MB")
        yield Row("resolver: different stacks", resolving["distinct_count"] / 1e3, "thousand")
        for name, text in (
            ("new_stacks", "new stacks"),
            ("known_calls", "stacks of known calls"),
            ("known_stacks", "known stacks"),
        ):
            yield Row(f"resolver: {text}", resolving[f"{name}_per_s"], "stacks/s")
    unwinding = parts.get("unwind", {})
    for name, what, peer, other in (
        ("rows", "rows of .eh_frame", "pyelftools", "pyelftools_rows"),
        ("frames", "copied stacks of a Python unwound", PERF, "perf_frames"),
    ):
        if f"{name}_per_s" in unwinding:
            yield Row(what, unwinding[f"{name}_per_s"], f"{name}/s", peer, unwinding[f"{other}_per_s"])


def rows_of_link(figures: Figures) -> Iterator[Row]:
    """Yield the rows of `tests.bench.links`."""
    yield Row("size of the program", figures["program_mb"], "MB")
    for name, text in (("first", "the first"), ("again", "the same again"), ("changed", "one object changed")):
        yield from _costs(f"icf link, {text}", figures, name, {"link": "the link alone"})
    yield from _costs("icf annotate, the median object", figures, "annotate", {"python": "python -c pass"})


def rows_of_recording(figures: Figures) -> Iterator[Row]:
    """Yield the rows of `tests.bench.recordings`."""
    yield Row("size of the recording", figures["recording_mb"], "MB")
    for name, costs in figures.items():
        if isinstance(costs, dict) and name != PERF:
            flat = {
                f"{who}_{field}": value
                for who, each in ((name, costs), (PERF, figures.get(PERF, {})))
                for field, value in each.items()
            }
            yield from _costs(f"icf resolve --out {name}", flat, name, {PERF: PERF})


def rows_of_trace(figures: Figures) -> Iterator[Row]:
    """Yield the rows of `tests.bench.traces`."""
    yield Row("records of the trace", figures["record_count"] / 1e6, "M")
    rate, peer = (
        figures["record_count"] / 1e6 / figures["count_cpu_s"],
        figures["record_count"] / 1e6 / figures["unzip_cpu_s"],
    )
    yield Row("icf trace view --count: by processor time", rate, "M records/s", "decompression alone", peer)
    yield from _costs("icf trace view --count", figures, "count", {"unzip": "decompression alone"})
    yield from _costs("icf trace seek, to the last chunk", figures, "seek", {"python": "python -c pass"})
    yield Row("open and seek, inside of a process: processor time, median", figures["seek_median_ms"], "ms")
    yield Row("open and seek, inside of a process: processor time, longest", figures["seek_most_ms"], "ms")


def text_of(value: float | None) -> str:
    """Return a figure with three digits that count."""
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def cells_of(rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row, after those of the head."""
    yield "figure", "icf", "beside", "that has", "share"
    for row in rows:
        other = f"{text_of(row.other)} {row.unit}" if row.other is not None else ""
        yield row.what, f"{text_of(row.ours)} {row.unit}", row.peer, other, text_of(row.share)


def aligned(rows: Iterable[Row]) -> str:
    """Return the table for a terminal."""
    table = list(cells_of(rows))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table)
    return "\n".join(f"  {line}" for line in lines)


def markdown(rows: Iterable[Row]) -> str:
    """Return the table for a page."""
    head, *rest = (f"| {' | '.join(cells)} |" for cells in cells_of(rows))
    return "\n".join([head, "|---|---|---|---|---|", *rest])
