"""Stacks of a program that was not recorded: walks along its direct calls, innermost frame first.

    starts in a function chosen at random ── a call chosen at random ── in what it calls, again ... a function's start

Each stack can arise: every frame but the innermost waits for a call that enters the function of the frame inwards.
"""

from __future__ import annotations

import random
from pathlib import Path

from unwind.program.parts import SiteKind
from unwind.program.program import Body, Program
from unwind.symcache.reader.program import load_cached
from unwind.symcache.store.store import open_or_build

FRAME_LIMIT = 30
TRIES = 20  # for each stack; few functions call others


def made_stacks(image: Path, count: int, cache_dir: Path) -> list[str]:
    """Return the lines, in the format `pcs`, of so many stacks of two frames or more; fewer if there are not as many.

    They are the same each time. The symcache of `image` comes from `cache_dir`.
    """
    cache = open_or_build(image, cache_dir=cache_dir)
    program = load_cached(cache)
    base, starts, *_ = cache.wide_columns()
    choose = random.Random(1)
    calls: dict[int, list[tuple[int, int]]] = {}
    lines = []
    for _ in range(TRIES * count):
        frames: list[int] = []
        vaddr = base + choose.choice(starts)
        while len(frames) < FRAME_LIMIT:
            if vaddr not in calls:
                body = program.body_at(vaddr)
                calls[vaddr] = [] if body is None else _direct_calls(program, body)
            if not calls[vaddr]:
                break
            return_address, vaddr = choose.choice(calls[vaddr])
            frames.append(return_address)
        if frames:
            lines.append(" ".join(map(hex, (vaddr, *reversed(frames)))) + "\n")
        if len(lines) == count:
            break
    return lines


def _direct_calls(program: Program, body: Body) -> list[tuple[int, int]]:
    """Return the direct calls of a function into others: return address and target."""
    sites = [(each, program.code.call_site(each)) for each in program.code.calls(body.start, body.end) or ()]
    return [
        (return_address, site.target)
        for return_address, site in sites
        if site.kind is SiteKind.DIRECT and (landed := program.body_at(site.target)) and landed.start == site.target
    ]
