"""In which order a thread ran what the files of several cores have of it.

Nothing in the files says it, and times may be made up by what made the files. But a thread goes on where it was, and
each file has its stretches in order:

    core 0   A 0x10..0x20   D 0x90..          A is followed by B or by D: B begins where A went on, D does not
    core 1   B 0x20..0x50   C 0x50..0x90      so A B C D is the only order of all

All orders that fit are followed at once, a stretch longer in each step; most of those that are wrong soon fit
nowhere. Which stretch was before another one is known if it is the same in all that fit to the end. Else, as where a
thread waits for something again and again, the order does not matter if each of the stretches leaves the stack as it
was: all begin with the one that was there before them. That holds if what they have returned from, and called again,
was on that stack, and not on another one that the thread changed to.

    step     1    2    3    4
             A    B    C    D     the only one that is left
             B    C    D          nothing begins where D went on, and A is left: not an order
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from unwind.trace.stretches import Left, Stretch

Place = tuple[int, int]  # file, number of the stretch


class Before(NamedTuple):
    """The stretch that left the stack with which a thread goes on."""

    place: Place
    needs: frozenset[tuple[Left, ...]] = frozenset()  # what must be on top of the stack: else it is another one


_MOST_ORDERS = 256  # that are followed at once

# How many stretches of each file an order has, and the file of the latest
_State = tuple[tuple[int, ...], int]
_Step = dict[_State, list[_State]]  # the states before each


def predecessors(files: Sequence[Sequence[Stretch]], has_times: bool) -> dict[Place, Before]:
    """Return for stretches, as far as it is known, one that left the stack with which their thread went on.

    Args:
        files: the stretches of all cores.
        has_times: whether the times are those at which threads ran.
    """
    threads: dict[tuple[int, int], list[list[Place]]] = {}
    for idx, stretches in enumerate(files):
        for row, stretch in enumerate(stretches):
            rows = threads.setdefault(stretch.thread, [])
            if not rows or rows[-1][0][0] != idx:
                rows.append([])
            rows[-1].append((idx, row))
    found = {}
    for rows in threads.values():
        thread = [[files[idx][row] for idx, row in each] for each in rows]
        for (file, at), ((before, at_before), needs) in _of_thread(thread, has_times).items():
            idx, row = rows[file][at]
            idx_before, row_before = rows[before][at_before]
            place = idx_before, files[idx_before][row_before].number
            found[idx, files[idx][row].number] = Before(place, needs)
    return found


def _of_thread(files: list[list[Stretch]], has_times: bool) -> dict[Place, Before]:
    """Return the same for one thread; places are rows of `files`."""
    until = [list(accumulate((each.last_time for each in stretches), max, initial=0)) for stretches in files]
    start: _State = (0,) * len(files), -1
    steps: list[_Step] = []  # since there was only one order
    latest: _Step = {start: []}
    found: dict[Place, Before] = {}
    for _ in range(sum(map(len, files))):
        step: _Step = {}
        for state in latest:
            positions, file = state
            last = files[file][positions[file] - 1] if file >= 0 else None
            if last is not None and last.is_last:
                continue
            time = max(times[at] for times, at in zip(until, positions, strict=True)) if has_times else 0
            for other, stretches in enumerate(files):
                at = positions[other]
                if at < len(stretches) and _fits(last, stretches[at], time):
                    after = *positions[:other], at + 1, *positions[other + 1 :]
                    step.setdefault((after, other), []).append(state)
        if not 0 < len(step) <= _MOST_ORDERS:
            return {}
        steps.append(step)
        latest = step
        if len(step) == 1:
            found |= _common(files, steps, latest)
            steps = []
    return found | _common(files, steps, latest)


def _fits(last: Stretch | None, stretch: Stretch, time: int) -> bool:
    """Return whether a thread can have gone on with a stretch."""
    if stretch.first_time and stretch.first_time < time:
        return False
    return last is None or not last.following or stretch.first is None or stretch.first in last.following


def _common(files: list[list[Stretch]], steps: list[_Step], ends: _Step) -> dict[Place, Before]:
    """Return for the stretches of some steps, as far as it is known, one that left the stack that they go on with."""
    alive = [set(ends)]
    for step in reversed(steps):
        alive.append({before for state in alive[-1] for before in step[state]})
    alive.reverse()
    found: dict[Place, Before] = {}
    first = 0  # step since which there are several orders
    for row in range(1, len(alive)):
        if len(alive[row]) == 1 or row == len(steps):
            found |= _between(files, steps[first:row], alive[first : row + 1])
            first = row
    return found


def _between(files: list[list[Stretch]], steps: list[_Step], alive: list[set[_State]]) -> dict[Place, Before]:
    """Return the same for steps between two that have one order each."""
    before: dict[Place, set[_State]] = {}
    for step, states in zip(steps, alive[1:], strict=True):
        for state in states:
            before.setdefault(_latest(state), set()).update(step[state])
    found = {}
    for place, states in before.items():
        latest = {_latest(state) for state in states}
        if len(latest) == 1 and next(iter(states))[1] >= 0:
            found[place] = Before(latest.pop())
    (start,), ends = alive[0], alive[-1]
    last = _latest(next(iter(ends))) if len(ends) == 1 else None
    between = [files[file][row] for file, row in before.keys() - {last}]
    if start[1] >= 0 and all(each.is_level for each in between):
        needs = frozenset(each.left for each in between if each.left)
        found = dict.fromkeys(before, Before(_latest(start), needs)) | found
    return found


def _latest(state: _State) -> Place:
    positions, file = state
    return file, positions[file] - 1
