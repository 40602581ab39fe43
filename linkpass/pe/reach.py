"""Which functions of a PE image lead into a merged body, and the code that does: calls, jumps, jumps through pointers.

As for ELF images (`linkpass.evidence.reach`), the machine code alone decides: every direct jump from one body to the
start of another one counts. Bodies are numbered by address.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from icf.code.branch_kinds import CONDITIONAL_JUMP
from icf.code.branches import find_branches
from icf.columns import U64
from icf.elf.types import Machine
from icf.folds.functions import Bodies
from icf.pdb.functions import PdbBody
from icf.pe.image import PeImage
from linkpass.pointer_jumps import PointerJumps, jumps_of

_NONE = np.empty(0, np.uint64)
_JUMP_BYTES, _CONDITIONAL_BYTES, _WORD_BYTES = 5, 6, 4


class Branch(NamedTuple):
    """A direct call or jump to the start of a body."""

    start: int
    end: int  # of a call its return address
    source: int  # body; -1: in none
    target: int
    is_jump: bool


class Reach(NamedTuple):
    """The bodies that matter, by number, and what leads to them."""

    bodies: Bodies
    called: frozenset[int]  # merged, or direct jumps lead from them to a merged one
    wanted: frozenset[int]  # these, and bodies that leave through a pointer, or jump to such
    branches: tuple[Branch, ...]  # calls of `called`, jumps to `wanted`
    pointers: PointerJumps


def find_reach(image: PeImage, found: list[PdbBody]) -> Reach:
    """Read the code of an image whose bodies were found."""
    starts, ends = (
        np.array([image.base + getattr(each, side) for each in found], np.uint64) for side in ("start", "end")
    )
    none = np.empty(0, np.int64)
    bodies = Bodies(starts, ends, none, _NONE, none, _NONE)
    pointers = jumps_of(image, bodies, stubs=image.plt_stubs)
    jumps = _branches(image, bodies, _NONE, starts)
    sources: dict[int, set[int]] = {}
    for each in jumps:
        if each.source >= 0:
            sources.setdefault(each.target, set()).add(each.source)
    called = leading(sources, (row for row, body in enumerate(found) if len(body.members) > 1))
    wanted = leading(sources, {*called, *bodies.at(pointers.jump).tolist()})
    calls = _branches(image, bodies, starts[sorted(called)], _NONE)
    return Reach(bodies, called, wanted, (*calls, *(each for each in jumps if each.target in wanted)), pointers)


def leading(sources: dict[int, set[int]], seeds: Iterable[int]) -> frozenset[int]:
    """Return some bodies, and all from which jumps lead to them; `sources` are those that jump to each."""
    found = set(seeds)
    todo = list(found)
    while todo:
        new = sources.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return frozenset(found)


def _branches(image: PeImage, bodies: Bodies, call_targets: U64, jump_targets: U64) -> list[Branch]:
    found = find_branches(image, call_targets, jump_targets)
    is_jump = len(jump_targets) > 0
    size_bytes = np.where(found.kind == CONDITIONAL_JUMP, _CONDITIONAL_BYTES, _JUMP_BYTES).astype(np.uint64)
    if image.machine is Machine.AARCH64:
        size_bytes[:] = _WORD_BYTES
    columns = found.end - size_bytes, found.end, bodies.at(found.end - np.uint64(1)), bodies.at(found.target)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Branch(start, end, source, target, is_jump) for start, end, source, target in rows]
