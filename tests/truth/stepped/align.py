"""Step k of the unfolded run against step k of the folded one: what each frame of the folded program truly is.

Both links hold the same functions, so both runs execute the same instructions, elsewhere. They must have as many
steps, stacks as deep at each, and in each frame the same kind and the same offset in its function: the one that has the
frame's address in the unfolded link. What does not fit is an error of this harness, not of the tool under test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.truth.folding import Folding
from tests.truth.reached import Reached
from tests.truth.stepped.identity import functions_of
from tests.truth.stepped.relocations import named_by_branch
from tests.truth.stepped.stepper import EXACT, Recording

Row = tuple[int, int, int, int]  # address, address of the call or jump to its function, parent, kind
THUNKS = ("__x86_indirect_thunk", "__llvm_retpoline", "__llvm_lvi_thunk")


class Diverged(Exception):
    """The two runs did not do the same; the text says where."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; `truth` is empty where no symbol is, in PLT stubs."""

    pc: int  # link-time, in the folded image
    original_pc: int
    is_exact: bool
    truth: tuple[str, ...]  # functions that it may be: more than one where the compiler merged them without a trace
    members: tuple[str, ...]  # functions of that body
    is_virtual: bool = False  # it is in a vtable, so its first argument is an object


@dataclass(frozen=True)
class Stack:
    """Innermost first; None is a frame outside of the image."""

    frames: tuple[Frame | None, ...]
    vptrs: tuple[tuple[int, int], ...] = ()  # row, link-time vtable pointer of the object there


@dataclass(frozen=True)
class Alignment:
    stacks: dict[Stack, int]  # with the first step that had it
    entries: dict[Stack, int]  # the same, at entries of functions, with vtable pointers
    step_count: int
    merged_bodies: int
    body_of: dict[int, int]  # of each address in the stacks, in the folded image


def align(folding: Folding, references: dict[int, str], unfolded: Recording, folded: Recording) -> Alignment:
    """Pair the steps of both runs; raises Diverged."""
    if len(unfolded.steps) != len(folded.steps):
        raise Diverged(
            f"{len(unfolded.steps)} steps without folding, {len(folded.steps)} with: {_first(unfolded, folded)}"
        )
    pairs = unfolded.steps.astype(np.uint64) << np.uint64(32) | folded.steps
    distinct, first_steps = np.unique(pairs, return_index=True)
    projector = _Projector(folding, references, unfolded, folded)
    stacks: dict[Stack, int] = {}
    for pair, step in zip(distinct.tolist(), first_steps.tolist(), strict=True):
        stacks.setdefault(Stack(projector.frames(pair >> 32, pair & 0xFFFFFFFF, step)), step)
    entries: dict[Stack, int] = {}
    for step, words in folded.entries:
        frames = projector.frames(int(unfolded.steps[step]), int(folded.steps[step]), step)
        if vptrs := projector.vptrs(frames, words):
            entries.setdefault(Stack(frames, vptrs), step)
    merged = {body for body, members in projector.members.items() if len(members) > 1}
    return Alignment(stacks, entries, len(folded.steps), len(merged), projector.body_at)


def _first(unfolded: Recording, folded: Recording) -> str:
    """Where the depths of the stacks begin to differ."""
    depths = [_depths(recording) for recording in (unfolded, folded)]
    for step, (original, other) in enumerate(zip(unfolded.steps.tolist(), folded.steps.tolist(), strict=False)):
        if depths[0][original] != depths[1][other]:
            places = (unfolded.frames[original][0] - unfolded.bias, folded.frames[other][0] - folded.bias)
            return f"step {step}: {places[0]:#x} / {places[1]:#x}"
    return "the shorter one ends early"


def _depths(recording: Recording) -> list[int]:
    depths = [0]
    for _address, _from, parent, _kind in recording.frames[1:]:  # a parent stands before its children
        depths.append(depths[parent] + 1)
    return depths


def _rows(recording: Recording, node: int) -> Iterator[Row]:
    while node:
        row = recording.frames[node]
        yield row
        node = row[2]


class _Projector:
    def __init__(self, folding: Folding, references: dict[int, str], unfolded: Recording, folded: Recording) -> None:
        self.folding, self.references, self.unfolded, self.folded = folding, references, unfolded, folded
        self.cache: dict[tuple[int, int, int, int], Frame | None] = {}
        self.body_of: dict[int, int] = {}
        self.members: dict[int, tuple[str, ...]] = {}
        self.body_at: dict[int, int] = {}
        self.virtuals = Reached(folding.originals).virtuals

    def frames(self, original_node: int, node: int, step: int) -> tuple[Frame | None, ...]:
        originals, rows = list(_rows(self.unfolded, original_node)), list(_rows(self.folded, node))
        if len(originals) != len(rows):
            raise Diverged(f"step {step}: {len(originals)} frames without folding, {len(rows)} with")
        frames = []
        for depth, (original, row) in enumerate(zip(originals, rows, strict=True)):
            if original[3] != row[3]:
                raise Diverged(f"step {step}: frame {depth} is interrupted in one run only")
            key = (original[0], original[1], row[0], row[3])
            if key not in self.cache:
                self.cache[key] = self._frame(original, row, step)
            frame = self.cache[key]
            is_thunk = depth > 0 and frame is not None and frame.truth and frame.truth[0].startswith(THUNKS)
            if not is_thunk:  # it replaces its return address
                frames.append(frame)
        return tuple(frames)

    def vptrs(self, frames: Sequence[Frame | None], words: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The vtable pointers among what the first arguments of frames point to."""
        bodies = self.folding.bodies
        return tuple(
            (row, word - self.folded.bias)
            for row, (frame, word) in enumerate(zip(frames, words, strict=False))
            if frame and frame.is_virtual and bodies.section_at(word - self.folded.bias) is not None
        )

    def _frame(self, original: Row, row: Row, step: int) -> Frame | None:
        before = row[3] != EXACT  # the call of a function's end may be the last instruction of the image
        if not self.folded.is_inside(row[0] - before):
            if self.unfolded.is_inside(original[0] - before):
                raise Diverged(f"step {step}: {original[0]:#x} is in the image without folding only")
            return None
        original_pc, pc, is_exact = original[0] - self.unfolded.bias, row[0] - self.folded.bias, row[3] == EXACT
        originals = self.folding.originals
        start = originals.start_of(original_pc - (not is_exact))
        if start is None:
            return Frame(pc, original_pc, is_exact, (), ())
        body = self.body_of.setdefault(start, pc - (original_pc - start))
        if body != pc - (original_pc - start):
            name = originals.keys_at[start][0]
            raise Diverged(f"step {step}: {name} at {original_pc:#x} is at {pc:#x}, and elsewhere at {body:#x}")
        if self.folding.bodies_of[start] and body not in self.folding.bodies_of[start]:
            raise Diverged(f"step {step}: {originals.keys_at[start][0]} is at {body:#x}, by its symbol elsewhere")
        self.body_at[pc] = body
        truth = functions_of(originals.keys_at[start])
        if len(truth) > 1 and original[1]:
            branch = original[1] - self.unfolded.bias
            named = named_by_branch(self.references, branch, originals.read(branch, 16))
            if named and named in originals.keys_at[start]:
                truth = functions_of([named])
        return Frame(pc, original_pc, is_exact, truth, self._members_of(body, start), start in self.virtuals)

    def _members_of(self, body: int, start: int) -> tuple[str, ...]:
        if body not in self.members:
            starts = {*self.folding.members.get(body, ()), start}
            names = [name for each in sorted(starts) for name in self.folding.originals.keys_at[each]]
            self.members[body] = functions_of(names)
        return self.members[body]
