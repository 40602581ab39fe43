"""Lines and inlined functions of the members of merged bodies, against the same objects linked without folding.

    python -m tests.truth.lines FOLDED UNFOLDED [--offsets N] [--findings N]

There each function has its own machine code, and llvm-symbolizer says what is at each offset of it. The folded body is
the same code, so a symcache has to say the same of that offset for that member, or less:

    right     all frames are the same
    chain     all inlined calls, but not the line of the innermost
    none      no line
    wrong     anything else

A member is found in the unfolded link by its symbol, else by its DIE, which is at the same offset of `.debug_info`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from icf.aliases import kin
from icf.dwarf.opening import open_debug
from icf.dwarf.scan import scan_functions
from icf.elf.image import Image
from icf.tables.icftable import parse_icf
from icf.tables.place import file_with_tables
from tests.support.symcaches import cache_of, symbolized
from tests.truth.symbols import read_functions
from unwind.program.frame import Frame
from unwind.symcache.reader.found import Located

OUTCOMES = ("right", "chain", "none", "wrong")


class Place(NamedTuple):
    """A member of a merged body, and where its code is without folding."""

    body: Located
    member_idx: int
    unfolded: int


class Report(NamedTuple):
    """Members; those that have any line; those that inline something, as far as was asked; those that say so."""

    members: int
    with_lines: int
    inlining: int
    with_chain: int
    not_found: int
    points: Counter[str]
    findings: list[str]


def judge(ours: Sequence[Frame], theirs: Sequence[Frame]) -> str:
    """The outcome for one address of one member."""
    if len(ours) == 1 and not ours[0].line:
        return "none" if any(frame.line for frame in theirs) else "right"
    if len(ours) == len(theirs) and all(map(_is_same, ours, theirs)):
        return "right"
    if len(ours) == len(theirs) and not ours[0].line and all(map(_is_same, ours[1:], theirs[1:])):
        return "chain" if kin(ours[0].linkage_name) == kin(theirs[0].linkage_name) else "wrong"
    return "wrong"


def _is_same(ours: Frame, theirs: Frame) -> bool:
    is_named = ours.is_inlined == theirs.is_inlined and (
        not ours.is_inlined or kin(ours.linkage_name) == kin(theirs.linkage_name)
    )
    if not ours.line and not theirs.line:
        return is_named
    return is_named and (ours.file, ours.line, ours.column) == (theirs.file, theirs.line, theirs.column)


def _text(frames: Sequence[Frame]) -> str:
    return " < ".join(f"{each.linkage_name[-50:]} {each.file[-30:]}:{each.line}:{each.column}" for each in frames)


def compare(folded: Path, unfolded: Path, offset_count: int) -> Report:
    """Compare up to so many offsets of each body."""
    cache = cache_of(folded)
    bodies = [body for start in sorted(read_functions(folded).keys_at) if (body := cache.find(start)) is not None]
    places, not_found = _places(folded, unfolded, [body for body in bodies if len(body.members) > 1])
    offsets = [_offsets(place.body.size_bytes, offset_count) for place in places]
    truth = iter(
        symbolized(unfolded, [place.unfolded + at for place, own in zip(places, offsets, strict=True) for at in own])
    )
    points: Counter[str] = Counter()
    findings = []
    with_lines = inlining = with_chain = 0
    for place, own in zip(places, offsets, strict=True):
        has_line = inlines = has_chain = False
        for at in own:
            theirs = next(truth)
            ours = cache.frames(place.body.start + at, place.member_idx)
            outcome = judge(ours, theirs)
            points[outcome] += 1
            has_line |= ours[0].line > 0
            inlines |= len(theirs) > 1
            has_chain |= len(ours) > 1
            if outcome == "wrong":
                findings.append(
                    f"{place.body.start + at:#x} as {place.unfolded + at:#x}: {_text(theirs)}; we: {_text(ours)}"
                )
        with_lines, inlining, with_chain = with_lines + has_line, inlining + inlines, with_chain + has_chain
    return Report(len(places), with_lines, inlining, with_chain, not_found, points, findings)


def _offsets(size_bytes: int, count: int) -> list[int]:
    return sorted({i * size_bytes // count for i in range(count)})


def _places(folded: Path, unfolded: Path, bodies: Sequence[Located]) -> tuple[list[Place], int]:
    """Where each member of each body is without folding; how many were not found."""
    symbols = read_functions(unfolded)
    starts_of: dict[str, set[int]] = {}
    for key, starts in symbols.starts_of.items():
        starts_of.setdefault(key.partition("@")[0], set()).update(starts)
    die_of = _dies(folded)
    with Image.open(unfolded) as image:
        functions = scan_functions(open_debug(image)).functions
        is_first = functions.part == 0
        start_of_die = dict(zip(functions.die[is_first].tolist(), functions.low[is_first].tolist(), strict=True))
    places = []
    not_found = 0
    for body in bodies:
        for i, member in enumerate(body.members):
            found = starts_of.get(member.name, set())
            if len(found) != 1:
                found = {start_of_die.get(die_of.get((body.start, i), 0), 0)} & (found or set(start_of_die.values()))
            size_bytes = min(map(symbols.size_at.__getitem__, found & symbols.size_at.keys()), default=0)
            if len(found) == 1 and size_bytes == body.size_bytes:
                places.append(Place(body, i, *found))
            else:
                not_found += 1
    return places, not_found


def _dies(path: Path) -> dict[tuple[int, int], int]:
    """The DIE of each member by the address of its body and its place there, as the tables have it."""
    with Image.open(path) as image:
        file = file_with_tables(image)
        if file.section(".debug_icf") is None:
            return {}
        table = parse_icf(file.contents(".debug_icf"), file.path, image.debug.contents(".debug_str"))
        return {(fold.vaddr, i): each.die for fold in table.classes for i, each in enumerate(fold.members)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folded", type=Path)
    parser.add_argument("unfolded", type=Path)
    parser.add_argument("--offsets", type=int, default=16, help="of each body, evenly spaced")
    parser.add_argument("--findings", type=int, default=5, help="to print")
    args = parser.parse_args()
    report = compare(args.folded, args.unfolded, args.offsets)
    said = report._asdict()
    said["points"] = {outcome: report.points[outcome] for outcome in OUTCOMES}
    said["findings"] = report.findings[: args.findings]
    json.dump(said, sys.stdout, indent=1)
    print()
    return 1 if report.points["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
