"""Which calls and jumps can end in a merged body.

A call of an unmerged function that tail-calls a merged one leaves the merged body under the
call's return address, so such calls matter, too. The functions that matter are found backwards:

    merged bodies M                     whose frames are ambiguous
    + bodies that jump into the set     until nothing is added: the loop adds a body once, so it ends
    + PLT stubs of these                a call through one is a call of the symbol it imports

A call through a register counts as a direct one where the code shows what the register holds (icf.code.indirect):

    mov f@GOTPCREL(%rip), %rbx      linkers make it lea f(%rip), %rbx
    call *%rbx                      clang does so with -fno-plt, where a function is called more than once

Its relocation is that of the instruction which forms or loads the address: the `operand` of the call.

Bodies with a jump through a pointer, and those that tail-call them, may reach a merged body, too. A direct call of one
names its address, so it needs no record; but a pointer or a vtable may lead to it.

The jumps come from the machine code, every direct jump from inside one body to the start of another, so nothing depends
on what a compiler records. A jump from a body to its own start is a loop unless a relocation or a call
site shows that it is a call.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from icf.code.branch_kinds import CALL, CONDITIONAL_JUMP
from icf.code.branches import Branches, find_branches
from icf.code.operands import find_operands
from icf.columns import U8, U64, Mask
from icf.elf.image import Image
from icf.elf.types import STT_GNU_IFUNC, Machine
from icf.sets import is_in
from linkpass.linked import Linked
from linkpass.pointer_jumps import NO_POINTER_JUMPS, PointerJumps


class Reach(NamedTuple):
    """Direct calls and jumps to bodies from which a merged body is reached, that body included."""

    wanted: frozenset[int]  # addresses of those bodies, and of bodies that may reach them through a pointer
    called: frozenset[int]  # those whose direct calls are all here
    pointers: PointerJumps
    # a row for each branch: first the calls, then the jumps, both by address
    end: U64  # after the instruction: of a call, its return address
    size: U8  # bytes of the instruction
    source: U64  # the body that holds it, 0 if none
    target: U64  # the body that it leads to, stubs resolved
    is_jump: Mask
    operand: U64  # of a call through a register: where the address that it calls has its relocation; else 0
    stub_symbol: dict[int, str]  # calls through a stub: row of the branch -> imported symbol
    entered_from_nowhere: frozenset[int]  # bodies of `wanted` that code in no body may jump to

    @property
    def calls(self) -> slice:
        """The rows of calls."""
        return slice(0, len(self.end) - int(self.is_jump.sum()))

    def by_register(self) -> dict[int, int]:
        """Return the targets of calls through registers, by return address."""
        rows = np.flatnonzero(self.operand != 0)
        return dict(zip(self.end[rows].tolist(), self.target[rows].tolist(), strict=True))

    @property
    def jumps(self) -> slice:
        """The rows of jumps."""
        return slice(self.calls.stop, len(self.end))


def find_reach(linked: Linked) -> Reach:
    """Find the branches that matter."""
    none = np.empty(0, np.uint64)
    image = linked.image
    jumps = find_branches(image, none, linked.bodies.start if len(linked.vaddrs) else none)
    source = linked.bodies.starts_at(jumps.end - np.uint64(1))
    keep = source != 0
    from_nowhere = jumps.target[~keep]
    jumps, source = _select(jumps, keep), source[keep]
    pointers = linked.pointers() if linked.folds or linked.undescribed else NO_POINTER_JUMPS
    called = _close(linked, source, jumps.target, set(linked.folds))
    wanted = _close(linked, source, jumps.target, called.union(pointers.body.tolist()))
    inside = is_in(jumps.target, np.array(sorted(wanted), np.uint64))
    jumps, source = _select(jumps, inside), source[inside]

    stubs = {stub: body for stub, body in _local_stubs(linked).items() if body in called}
    targets = np.array(sorted(called | set(stubs)), np.uint64)
    calls, operand = _with_registers(image, find_branches(image, targets, none), pointers, targets)
    target = calls.target.copy()
    stub_symbol: dict[int, str] = {}
    if stubs:
        for row in np.flatnonzero(is_in(target, np.array(sorted(stubs), np.uint64))).tolist():
            stub_symbol[row] = image.plt_stubs[int(target[row])]
            target[row] = stubs[int(target[row])]
    no_operand = np.zeros(len(jumps.end), np.uint64)
    return Reach(
        wanted=frozenset(wanted),
        called=frozenset(called),
        pointers=pointers,
        end=np.concatenate([calls.end, jumps.end]),
        size=_size_bytes(linked, np.concatenate([calls.kind, jumps.kind]), np.append(operand, no_operand)),
        source=np.concatenate([linked.bodies.starts_at(calls.end - np.uint64(1)), source]),
        target=np.concatenate([target, jumps.target]),
        is_jump=np.arange(len(calls.end) + len(jumps.end)) >= len(calls.end),
        operand=np.append(operand, no_operand),
        stub_symbol=stub_symbol,
        entered_from_nowhere=frozenset(from_nowhere.tolist()) & wanted,
    )


def _with_registers(image: Image, calls: Branches, pointers: PointerJumps, targets: U64) -> tuple[Branches, U64]:
    """Return direct calls and those of `targets` through registers, by return address, and the operands of the latter.

    What looks like a direct call that ends where one through a register does is not one.
    """
    rows = np.flatnonzero(is_in(pointers.known_target, targets))
    ends = pointers.known_end[rows]
    calls = _select(calls, ~is_in(calls.end, ends))
    none = np.zeros(len(calls.end), np.uint64)
    operand = np.append(none, find_operands(image, pointers.known_source[rows]))
    united = Branches(
        np.append(calls.end, ends),
        np.append(calls.target, pointers.known_target[rows]),
        np.append(calls.kind, np.full(len(rows), CALL, np.uint8)),
    )
    order = np.argsort(united.end, kind="stable")
    return Branches(united.end[order], united.target[order], united.kind[order]), operand[order]


def _size_bytes(linked: Linked, kinds: U8, operand: U64) -> U8:
    """Return the sizes of branch instructions, of calls through registers the least."""
    if linked.image.machine is Machine.AARCH64:
        return np.full(len(kinds), 4, np.uint8)
    return np.where(operand != 0, 2, np.where(kinds == CONDITIONAL_JUMP, 6, 5)).astype(np.uint8)


def _select(branches: Branches, keep: Mask) -> Branches:
    return Branches(branches.end[keep], branches.target[keep], branches.kind[keep])


def _close(linked: Linked, source: U64, target: U64, seeds: set[int]) -> set[int]:
    """Return some bodies, and all that jump into the set."""
    sources_of: dict[int, set[int]] = {}
    across = source != target
    for start, goal in zip(source[across].tolist(), target[across].tolist(), strict=True):
        sources_of.setdefault(goal, set()).add(start)
    for fragment, owners in _fragment_owners(linked).items():
        sources_of.setdefault(fragment, set()).update(owners)
    wanted = set(seeds)
    queue = deque(wanted)
    while queue:
        for start in sources_of.get(queue.popleft(), ()):
            if start not in wanted:
                wanted.add(start)
                queue.append(start)
    return wanted


def _fragment_owners(linked: Linked) -> dict[int, list[int]]:
    """Return, for each merged cold part, the bodies of the functions that it was cut from."""
    start_of: dict[int, int] = {}
    functions = linked.functions
    fragments = [fold for fold in linked.folds.values() if fold.fragment]
    if not fragments:
        return {}
    dies = {die for fold in fragments for member in fold.members for die in member.dies}
    whole = np.flatnonzero(is_in(functions.die, np.array(sorted(dies), np.uint64)) & (functions.part == 0))
    for row in whole.tolist():
        start_of[int(functions.die[row])] = int(functions.low[row])
    return {
        fold.vaddr: [start_of[die] for member in fold.members for die in member.dies if die in start_of]
        for fold in fragments
    }


def _local_stubs(linked: Linked) -> dict[int, int]:
    """Return PLT stubs whose symbol this image defines itself: stub -> body. Of an ifunc that is not what is called."""
    image = linked.image
    stubs = image.plt_stubs
    if not stubs:
        return {}
    symbols = image.dynamic_symbols
    rows = symbols.functions[symbols.type[symbols.functions] != STT_GNU_IFUNC].tolist()
    defined = {symbols.name(row): int(symbols.value[row]) for row in rows}
    return {stub: defined[name] for stub, name in stubs.items() if name in defined}
