"""One page of all figures: each beside its peer on the same input in the same run, with the versions of both."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.bench.rows import Row, markdown
from tests.support.versions import versions

TOOLS = ("llvm-gsymutil", "llvm-symbolizer", "perf", "clang++", "ld.lld", "g++", "ld.gold")
HEAD = """\
# Benchmarks

`make bench` writes this page. All figures are of one run on one machine. Beside each is that of a tool that does the
same kind of thing with the same input; the two ran in turns. A figure is the median of {turns} turns, memory the
highest. *Share* is what `icf` takes of what the other takes: 0.5 is half as much time, memory or bytes. Processor time
is of all threads. [Performance](design/performance.md) has the reasons.

<!-- not run: it takes minutes -->
```console
$ make bench
$ .venv/bin/python -m tests.bench IMAGE... --part pass --part symbolize
```

"""
PLOT = "![processor time as a share of the other's]({name})\n\n"
_BAR_HEIGHT, _LABEL_WIDTH, _PLOT_WIDTH, _SHARE_MAX = 18, 620, 400, 2.0


class Subject(NamedTuple):
    """What was measured, and its figures."""

    title: str
    rows: list[Row]


def page(subjects: Sequence[Subject], turn_count: int, plot: str, ran: Sequence[tuple[str, str]]) -> str:
    """Return the page; `plot` is the name of the picture beside it, `ran` what `what_ran` has."""
    parts = [HEAD.format(turns=turn_count), "## What ran\n\n"]
    parts += ["| | |\n|---|---|\n", *(f"| {name} | {version} |\n" for name, version in ran), "\n"]
    parts.append(PLOT.format(name=plot) if any(shares_of(subjects)) else "")
    for subject in subjects:
        parts.append(f"## {subject.title}\n\n{markdown(subject.rows)}\n\n")
    return "".join(parts).rstrip("\n") + "\n"


def what_ran(arguments: Sequence[str], load: float) -> Iterator[tuple[str, str]]:
    """Yield what ran, of which version, and on what; `load` is that of the machine when it began."""
    yield "command", f"`{shlex.join(['python', '-m', 'tests.bench', *arguments])}`"
    yield "load of the machine when it began", f"{load:.1f}"
    yield from versions(*TOOLS)


def shares_of(subjects: Sequence[Subject]) -> Iterator[tuple[str, float]]:
    """Yield the shares of processor time, each with its subject and peer."""
    for subject in subjects:
        for row in subject.rows:
            if row.share is not None and row.what.endswith("processor time") and "python -c" not in row.peer:
                yield f"{subject.title}: {row.what.rpartition(':')[0]} / {row.peer}", row.share


def plot(subjects: Sequence[Subject]) -> str:
    """Return the picture: a bar for each share of processor time, with a line at 1."""
    shares = list(shares_of(subjects))
    scale = _PLOT_WIDTH / _SHARE_MAX
    height = _BAR_HEIGHT * len(shares) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABEL_WIDTH + _PLOT_WIDTH + 50}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (label, share) in enumerate(shares):
        top = _BAR_HEIGHT * number + 4
        width = min(share, _SHARE_MAX) * scale
        colour = "#4c78a8" if share <= 1 else "#e45756"
        lines += [
            f'<text x="{_LABEL_WIDTH - 6}" y="{top + 11}" text-anchor="end">{_escaped(label)}</text>',
            f'<rect x="{_LABEL_WIDTH}" y="{top}" width="{width:.1f}" height="{_BAR_HEIGHT - 4}" fill="{colour}"/>',
            f'<text x="{_LABEL_WIDTH + width + 4:.1f}" y="{top + 11}">{share:.2f}</text>',
        ]
    one = _LABEL_WIDTH + scale
    lines += [
        f'<line x1="{one}" y1="0" x2="{one}" y2="{height - 18}" stroke="black" stroke-dasharray="3 2"/>',
        f'<text x="{one}" y="{height - 5}" text-anchor="middle">as much as the other</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
