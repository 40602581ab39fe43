"""Stacks that no run has shown: walks over the calls that the code without folding makes.

    main                      call of read<int>
      read<int>               call of check
        check                 jump to fail, which leaves no frame of check
          fail

Each walk begins in a function, mostly in one that is not merged, and goes on by one of its direct calls, or by jumps of
the function called. The same offsets in the bodies of the folded image make the stack that is asked about. Runs cover a
part of a program; walks go everywhere. They take no calls through pointers: which of those a program can make is not
known.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.truth.align import Frame, Stack, frame_in
from tests.truth.folding import Folding
from tests.truth.reached import DIRECT, TAIL_DIRECT, UNKNOWN, Reached

DEPTH_MAX, JUMPS_MAX = 12, 4


def walk(folding: Folding, count: int, seed: int = 1) -> Counter[Stack]:
    """Return the stacks of so many walks."""
    random, reached = Random(seed), Reached(folding.originals)
    bodies = {start: min(found) for start, found in folding.bodies_of.items() if len(found) == 1}
    shared = {start for found in folding.members.values() if len(found) > 1 for start in found}
    calling = [start for start in sorted(bodies) if any(call[2] for call in _branches(reached, bodies, start))]
    alone = [start for start in calling if start not in shared]
    stacks: Counter[Stack] = Counter()
    for _ in range(count if calling else 0):
        frames: list[Frame] = []
        function, way = random.choice(alone if alone and random.random() < 0.75 else calling), UNKNOWN
        while len(frames) < DEPTH_MAX:
            calls = [(end, target) for end, target, is_call in _branches(reached, bodies, function) if is_call]
            if not calls:
                break
            merged = [call for call in calls if call[1] in shared]
            end, target = random.choice(merged if merged and random.random() < 0.5 else calls)
            frames.append(frame_in(folding, function, end - function, bodies[function], False, way))
            function, way = target, DIRECT
            for _ in range(JUMPS_MAX):
                jumps = [target for _, target, is_call in _branches(reached, bodies, function) if not is_call]
                if not jumps or random.random() < 0.5:
                    break
                function, way = random.choice(jumps), TAIL_DIRECT
        frames.append(frame_in(folding, function, 0, bodies[function], True, way))
        stacks[Stack(tuple(reversed(frames)))] += 1
    return stacks


def _branches(reached: Reached, bodies: dict[int, int], start: int) -> list[tuple[int, int, bool]]:
    return [branch for branch in reached.direct(start) if branch[1] in bodies]
