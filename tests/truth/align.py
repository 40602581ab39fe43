"""Sample k of one run against sample k of the other: what each frame of the folded program truly is.

A sample is used only if
  1. the hash of all ticks up to it is the same in both runs: they did the same so far;
  2. both stacks are equally deep;
  3. every frame projects: the original's function has its body in the folded image at exactly the function and
     offset of the folded program's frame, and a frame in a library is at the same place of the same library.
What fails is counted by its reason and shown.

Many samples have the same stack. They become one `Stack` with a weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.truth.folding import Folding
from tests.truth.names import plain_name
from tests.truth.reached import DIRECT, UNKNOWN, Reached
from tests.truth.record import Module, Recording, Sample
from tests.truth.symbols import base_name


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame in the image; `original_pc` is where the unfolded program was."""

    pc: int  # link-time, in the folded image
    original_pc: int
    original: int  # start of the true function in the unfolded image
    body: int
    names: tuple[str, ...]  # true linkage names: aliases of one function
    candidates: tuple[str, ...]  # names of all members; () if the body is not merged
    is_exact: bool  # pc is a program counter
    reached: str = UNKNOWN  # one of `tests.truth.reached.WAYS`

    @property
    def is_direct(self) -> bool:
        """Whether its caller holds a direct call to it."""
        return self.reached == DIRECT


def frame_in(folding: Folding, original: int, offset: int, body: int, is_exact: bool, reached: str = UNKNOWN) -> Frame:
    """The frame at an offset of a function that has this body."""
    names = tuple(dict.fromkeys(base_name(name) for name in folding.originals.keys_at[original]))
    members = folding.members[body]
    candidates: tuple[str, ...] = ()
    if len({plain_name(folding.originals.keys_at[start][0]) for start in members}) > 1:
        every = {base_name(name) for start in members for name in folding.originals.keys_at[start]}
        candidates = tuple(sorted(every))
    return Frame(body + offset, original + offset, original, body, names, candidates, is_exact, reached)


@dataclass(frozen=True, slots=True)
class Stack:
    """Innermost first; None is a frame outside of the image or in a PLT stub."""

    frames: tuple[Frame | None, ...]
    vptrs: tuple[tuple[int, int], ...] = ()  # row, link-time vtable address that the frame's first argument holds
    has_objects: bool = False  # at an entry, where it is known what frames' arguments hold


@dataclass
class Alignment:
    stacks: Counter[Stack] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    rejected: list[str] = field(default_factory=list)  # a few examples


class _Projector:
    """Maps frames of one pair of recordings, each distinct pair of addresses once."""

    def __init__(self, folding: Folding, unfolded: Recording, folded: Recording) -> None:
        self.folding, self.unfolded, self.folded = folding, unfolded, folded
        self.cache: dict[tuple[int, int, bool], Frame | None | str] = {}

    def project(self, original_address: int, address: int, is_exact: bool) -> Frame | None | str:
        """The frame, None outside of the image, or why the two do not match."""
        key = (original_address, address, is_exact)
        if key not in self.cache:
            self.cache[key] = self._project(*key)
        return self.cache[key]

    def _project(self, original_address: int, address: int, is_exact: bool) -> Frame | None | str:
        original_module = self.unfolded.module_of(original_address)
        module = self.folded.module_of(address)
        program, original_program = self.folded.modules[0], self.unfolded.modules[0]
        if original_module != original_program or module != program:
            return self._outside(original_module, original_address, module, address)
        original_pc, pc = original_address - original_program.bias, address - program.bias
        folding = self.folding
        back = 0 if is_exact else 1
        original = folding.originals.start_of(original_pc - back)
        if original is None:  # a PLT stub has no symbol: as little known as what is outside
            is_stub = is_exact and folding.bodies.start_of(pc) is None
            return None if is_stub else "in no function"
        body = pc - (original_pc - original)
        if body not in folding.bodies_of[original]:
            return "other function or offset"
        return frame_in(folding, original, original_pc - original, body, is_exact)

    def _outside(
        self, original: Module | None, original_address: int, module: Module | None, address: int
    ) -> None | str:
        if original is None or module is None:
            return None if original is module and original_address == address else "in no module"
        same_place = original_address - original.bias == address - module.bias
        return None if original.path == module.path and same_place else "other library address"


def _mark_ways(reached: Reached, frames: list[Frame | None]) -> tuple[Frame | None, ...]:
    """Say of each frame how the unfolded program got there."""
    marked = list(frames)
    for row, frame in enumerate(frames):
        if frame and row + 1 < len(frames):
            caller = frames[row + 1]
            way = reached.way(caller.original_pc if caller else None, frame.original)
            marked[row] = replace(frame, reached=way)
    return tuple(marked)


def align(
    folding: Folding, unfolded: Recording, folded: Recording, into: Alignment, reached: Reached | None = None
) -> None:
    """Add the samples of a pair of runs to `into`."""
    counts = into.counts
    counts["samples"] += len(folded.samples)
    by_tick = {sample.tick: sample for sample in unfolded.samples}
    projector = _Projector(folding, unfolded, folded)
    reached = reached or Reached(folding.originals)
    marked: dict[tuple[tuple[int, ...], tuple[int, ...], bool], tuple[Frame | None, ...] | str] = {}
    program = folded.modules[0]
    for sample in folded.samples:
        original_sample = by_tick.get(sample.tick)
        if original_sample is None:
            counts["lost: in one run only"] += 1
            continue
        if not original_sample.is_like(sample):
            counts["lost: the runs diverged"] += 1
            continue
        key = (original_sample.addresses, sample.addresses, sample.is_exact)
        if key not in marked:
            marked[key] = _project_stack(reached, projector, original_sample, sample)
        frames = marked[key]
        if isinstance(frames, str):
            counts[f"rejected: {frames}"] += 1
            if len(into.rejected) < 5:
                into.rejected.append(f"tick {sample.tick}: {frames}: {_show(original_sample)} / {_show(sample)}")
            continue
        counts["aligned"] += 1
        original_bias = unfolded.modules[0].bias
        vptrs = _vptrs(reached, original_sample, original_bias, sample, frames, program)
        into.stacks[Stack(frames, vptrs, bool(sample.objects))] += 1


def _vptrs(
    reached: Reached,
    original_sample: Sample,
    original_bias: int,
    sample: Sample,
    frames: Sequence[Frame | None],
    program: Module,
) -> tuple[tuple[int, int], ...]:
    """What `this` points to, as far as that points into the program, and belongs to the very function of its frame.

    Where a virtual function is not given an object, its first argument is for the result: memory that may hold another
    object's remains. Then the vtable of the second has the function.
    """
    outside = len(frames) - len(sample.addresses)
    originals = {
        row: (first - original_bias, second - original_bias) for row, _, first, second in original_sample.objects
    }
    found = []
    for row, entry, first, second in sample.objects:
        frame = frames[row + outside]
        if frame is None or frame.body != entry - program.bias:
            continue
        is_second = frame.original in reached.virtuals and not program.low <= first < program.high
        if row in originals and not is_second:
            holds_first, holds_second = (reached.vtable_holds(each, frame.original) for each in originals[row])
            is_second = holds_second and not holds_first
        vptr = second if is_second else first
        if program.low <= vptr < program.high:
            found.append((row + outside, vptr - program.bias))
    return tuple(found)


def _project_stack(
    reached: Reached, projector: _Projector, original_sample: Sample, sample: Sample
) -> tuple[Frame | None, ...] | str:
    if len(original_sample.addresses) != len(sample.addresses):
        return "other depth"
    frames: list[Frame | None] = []
    for depth, pair in enumerate(zip(original_sample.addresses, sample.addresses, strict=True)):
        frame = projector.project(*pair, sample.is_exact and depth == 0)
        if isinstance(frame, str):
            return frame
        frames.append(frame)
    if not sample.is_exact:  # the innermost is the allocator's: outside of the image, and not in the sample
        frames.insert(0, None)
    return _mark_ways(reached, frames)


def _show(sample: Sample) -> str:
    return " ".join(f"{address:#x}" for address in sample.addresses[:6])
