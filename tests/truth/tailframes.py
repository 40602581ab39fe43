"""Frames of tail calls: those that gdb shows on the link without folding, those that `icf resolve` shows on the folded.

    python -m tests.truth.tailframes FOLDED UNFOLDED --break SYMBOL... [--skip N] [--limit N] [--folder DIR] -- ARG...

gdb stops both programs at the same calls of some functions. Of the unfolded one it tells the frames that tail calls
have taken away, from the call sites in DWARF; of the folded one, which has had its pass, only addresses are taken, for
the resolver. Compared is each gap between a frame of the image and its caller, by the names of functions:

    same        what gdb shows, and nothing else
    more        that, and others
    less        part of that, or nothing
    other       something that gdb's frames contradict
    ours alone  gaps in which gdb shows nothing
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from icf.aliases import kin
from icf.elf.image import Image
from tests.support.gdb_frames import functions_between, stacks
from tests.support.toolchain import tool
from unwind.program.from_image import load_program
from unwind.resolve.resolver import Resolver
from unwind.symbolize.answer import Answer


def judge(ours: Sequence[Answer], theirs: Sequence[str]) -> str:
    """The outcome for one gap; both are from the inside outwards."""
    if not theirs:
        return "ours alone" if ours else "none"
    if len(ours) == len(theirs) and _is_part(theirs, ours):
        return "same"
    if _is_part(theirs, ours):
        return "more"
    return "less" if _holds(theirs, ours) else "other"


def _is_part(names: Sequence[str], ours: Sequence[Answer]) -> bool:
    rest = iter(ours)
    return all(any(_fits(answer, name) for answer in rest) for name in names)


def _holds(names: Sequence[str], ours: Sequence[Answer]) -> bool:
    rest = iter(names)
    return all(any(_fits(answer, name) for name in rest) for answer in ours)


def _fits(answer: Answer, name: str) -> bool:
    return any(kin(said) == kin(name) for said in answer.linkage_names or [answer.linkage_name or ""])


def compare(
    folded: Path,
    unfolded: Path,
    breakpoints: Sequence[str],
    arguments: Sequence[str],
    skip: int,
    limit: int,
    folder: Path | None,
) -> tuple[Counter[str], Counter[str]]:
    """Gaps by outcome, and descriptions of those in which gdb shows what we do not."""
    gdb = tool("gdb")
    run = [
        stacks(gdb, path, breakpoints, *arguments, skip=skip, limit=limit, folder=folder) for path in (folded, unfolded)
    ]
    outcomes: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    with Image.open(folded) as image:
        resolver = Resolver(load_program(image))
        symbols = image.symbols
        start = next(int(symbols.value[row]) for row in symbols.functions.tolist() if symbols.name(row) == "_start")
        for seen, original in zip(*run, strict=False):
            theirs = functions_between(original)
            addresses = [frame.pc + start for frame in seen if not frame.tail_call]
            if len(theirs) != len(addresses):
                outcomes["other stack"] += 1
                continue
            answers = resolver.resolve(tuple(_of_image(image, address) for address in addresses))
            for answer, (name, missing) in zip(answers, theirs, strict=True):
                if answer.address is None:
                    continue
                outcome = judge(answer.missing, missing)
                outcomes[outcome] += 1
                if outcome not in ("none", "same"):
                    said = [each.linkage_name or "|".join(each.linkage_names[:2]) for each in answer.missing]
                    findings[f"{outcome}: {name}: gdb {missing}, we {said}"] += 1
    return outcomes, findings


def _of_image(image: Image, address: int) -> int | None:
    return address if any(0 <= address - part.vaddr <= part.memsz for part in image.segments) else None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folded", type=Path)
    parser.add_argument("unfolded", type=Path)
    parser.add_argument("--break", dest="breakpoints", action="append", required=True, metavar="SYMBOL")
    parser.add_argument("--skip", type=int, default=0, help="calls to pass between two stops")
    parser.add_argument("--limit", type=int, default=200, help="stops")
    parser.add_argument("--folder", type=Path, help="where the program runs")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="of the program")
    args = parser.parse_intermixed_args()
    folded, unfolded = args.folded.resolve(), args.unfolded.resolve()
    outcomes, findings = compare(folded, unfolded, args.breakpoints, args.arguments, args.skip, args.limit, args.folder)
    json.dump({"outcomes": dict(outcomes), "findings": findings.most_common(20)}, sys.stdout, indent=1)
    print()
    return 1 if outcomes["other"] else 0


if __name__ == "__main__":
    sys.exit(main())
