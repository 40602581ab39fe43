"""The ways in which stacks that profilers deliver differ from those that programs have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from tests.truth.align import Frame, Stack
from tests.truth.damaged.frame_pointers import FramePointers

NEAR = 4
KEPT = 8


class Damaged(NamedTuple):
    """A stack as it is asked about, and as it is scored: what does not belong to it is no frame there."""

    asked: Stack
    truth: Stack


Damage = Callable[[Stack, Random], Damaged | None]  # None: this stack cannot have it


def only(stack: Stack, rows: Sequence[int]) -> Damaged:
    """The stack with these rows alone."""
    place = {row: idx for idx, row in enumerate(rows)}
    vptrs = tuple((place[row], vptr) for row, vptr in stack.vptrs if row in place)
    left = Stack(tuple(stack.frames[row] for row in rows), vptrs, stack.has_objects)
    return Damaged(left, left)


def without(stack: Stack, lost: int) -> Damaged:
    """The stack without one row."""
    return only(stack, [row for row in range(len(stack.frames)) if row != lost])


def whole(stack: Stack, _random: Random) -> Damaged | None:
    """Nothing is damaged."""
    return Damaged(stack, stack)


def one_lost(stack: Stack, random: Random) -> Damaged | None:
    """Any frame but the innermost and the outermost."""
    return without(stack, random.randrange(1, len(stack.frames) - 1)) if len(stack.frames) > 2 else None


def near_one_lost(stack: Stack, random: Random) -> Damaged | None:
    """One of the four next to the innermost."""
    end = min(len(stack.frames) - 1, NEAR + 1)
    return without(stack, random.randrange(1, end)) if end > 1 else None


def lost_at_entry(stack: Stack, _random: Random) -> Damaged | None:
    """The caller of a function at its first instruction, which has no frame yet."""
    first = stack.frames[0]
    is_entry = first is not None and first.is_exact and first.pc == first.body
    return without(stack, 1) if is_entry and len(stack.frames) > 2 else None


def cut(stack: Stack, _random: Random) -> Damaged | None:
    """The innermost frames alone."""
    return only(stack, range(KEPT)) if len(stack.frames) > KEPT else None


def stale_inserted(addresses: Sequence[Frame]) -> Damage:
    """A return address that is not part of the stack, as one that an earlier call left there."""

    def damage(stack: Stack, random: Random) -> Damaged | None:
        row = random.randrange(1, len(stack.frames) + 1)
        asked, truth = list(stack.frames), list(stack.frames)
        asked.insert(row, random.choice(addresses))
        truth.insert(row, None)
        vptrs = tuple((idx + (idx >= row), vptr) for idx, vptr in stack.vptrs)
        return Damaged(Stack(tuple(asked), vptrs, stack.has_objects), Stack(tuple(truth), vptrs, stack.has_objects))

    return damage


def by_frame_pointers(pointers: FramePointers) -> Damage:
    """What a walk along frame pointers finds, which code without them, as that of libraries, leaves alone."""

    def has_frame(frame: Frame | None) -> bool:
        return frame is not None and pointers.has_frame(frame.pc, frame.is_exact)

    def damage(stack: Stack, _random: Random) -> Damaged | None:
        rows, row = [0], 0
        while row < len(stack.frames):
            while row < len(stack.frames) and not has_frame(stack.frames[row]):
                row += 1  # its caller is not read
            row += 1
            if row < len(stack.frames):
                rows.append(row)
        return only(stack, rows)

    return damage


def damages(stacks: Mapping[Stack, int], pointers: FramePointers | None) -> dict[str, Damage]:
    """All damages of stacks, by name; `pointers`: of a program that was built with frame pointers."""
    callers = sorted({frame for stack in stacks for frame in stack.frames[1:] if frame}, key=lambda frame: frame.pc)
    found: dict[str, Damage] = {
        "whole": whole,
        "one lost": one_lost,
        f"one of {NEAR} lost": near_one_lost,
        "lost at entry": lost_at_entry,
        f"cut to {KEPT}": cut,
        "stale address": stale_inserted(callers),
    }
    if pointers is not None:
        found["frame pointers"] = by_frame_pointers(pointers)
    return found
