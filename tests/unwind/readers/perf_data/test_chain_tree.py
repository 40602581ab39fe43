"""Call chains in a tree: the same frames as chain by chain, and callers that stacks share."""

from __future__ import annotations

import random
from struct import pack

import numpy as np
import pytest

from unwind.readers.perf_data import chain_tree
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data.chain_tree import ChainTree
from unwind.readers.perf_data.frames import Tables, frames_of, other_tables
from unwind.readers.perf_data.layout import (
    CONTEXT_GUEST,
    CONTEXT_GUEST_KERNEL,
    CONTEXT_GUEST_USER,
    CONTEXT_HYPERVISOR,
    CONTEXT_KERNEL,
    CONTEXT_USER,
    CONTEXT_USER_DEFERRED,
    CPUMODE_KERNEL,
    CPUMODE_USER,
)
from unwind.samples import path_tree
from unwind.samples.calls import CallStack
from unwind.samples.columns import NUMBER_BITS
from unwind.samples.recording import RecordedFrame, RecordedProcess

_MARKERS = (
    CONTEXT_KERNEL,
    CONTEXT_USER,
    CONTEXT_HYPERVISOR,
    CONTEXT_GUEST,
    CONTEXT_GUEST_KERNEL,
    CONTEXT_GUEST_USER,
    (1 << 64) - 77,  # no marker that is known: the program's
)
_IP = 0x1234
_PROCESS = RecordedProcess(7)


def tables() -> Tables:
    return Tables(lambda address, is_exact: RecordedFrame(address, is_exact=is_exact))


def stacks_of(
    tree: ChainTree, user: Tables, chains: list[list[int]], mode: int = CPUMODE_USER
) -> list[CallStack | None]:
    rows = np.zeros((len(chains), r.ROW_WIDTH), np.uint64)
    at = 0
    for row, chain in zip(rows, chains, strict=True):
        row[[r.MISC, r.IP, r.REST, r.CHAIN_END]] = mode, _IP, at, at + 8 * len(chain)
        row[[r.SPACE, r.NODE]] = tree.space_of(user), tree.calls.root(_PROCESS)
        at += 8 * len(chain)
    tree.find(b"".join(pack(f"<{len(chain)}Q", *chain) for chain in chains), rows)
    return tree.stacks(rows[:, r.NODE].tolist())


@pytest.mark.parametrize("mode", [CPUMODE_USER, CPUMODE_KERNEL])
def test_frames_are_those_of_each_chain_by_itself(monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    monkeypatch.setattr(chain_tree, "_ADDRESSES", 4)
    monkeypatch.setattr(path_tree, "_NODES", 4)  # so that both tables grow often
    random_ = random.Random(mode)
    others = other_tables(lambda address, is_exact: RecordedFrame(address, name="k", is_exact=is_exact))
    users = [tables(), tables()]
    tree = ChainTree(others)
    met: dict[tuple[RecordedFrame, ...], CallStack] = {}
    default = CONTEXT_KERNEL if mode == CPUMODE_KERNEL else CONTEXT_USER
    for _ in range(40):
        user = random_.choice(users)
        chains = [
            [random_.choice((*_MARKERS, *range(0x400, 0x430))) for _ in range(random_.randrange(9))] for _ in range(20)
        ]
        for chain, stack in zip(chains, stacks_of(tree, user, chains, mode), strict=True):
            frames, _ = frames_of(pack(f"<{len(chain)}Q", *chain), default, user, others)
            frames = frames or (others.get(default, user).exact[_IP],)
            assert stack is not None
            assert tuple(stack) == frames
            assert met.setdefault(frames, stack) is stack  # each stack once
    assert len(met) > 300


def test_stacks_share_their_callers() -> None:
    user = tables()
    tree = ChainTree(other_tables(lambda address, is_exact: RecordedFrame(address)))
    first, second, third = stacks_of(tree, user, [[1, 5, 9], [2, 5, 9], [5, 9]])
    assert first is not None and second is not None and third is not None
    callers = [each.tree.nodes[each.node] >> NUMBER_BITS for each in (first, second, third)]
    assert first.node != second.node and callers[0] == callers[1]
    assert callers[0] != third.node  # a return address here, a program counter there
    assert first.tree.nodes[callers[0]] >> NUMBER_BITS == callers[2]


def test_a_chain_that_a_later_record_completes_is_left_out() -> None:
    tree = ChainTree(other_tables(lambda address, is_exact: RecordedFrame(address)))
    kernel = [CONTEXT_KERNEL, 7, CONTEXT_USER_DEFERRED, 3]
    assert [stack is None for stack in stacks_of(tree, tables(), [kernel, [1]])] == [True, False]


def test_another_tree_after_one_that_grew_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_tree, "_KEPT_NODES", 10)
    user = tables()
    tree = ChainTree(other_tables(lambda address, is_exact: RecordedFrame(address)))
    (before,) = stacks_of(tree, user, [list(range(1, 12))])
    assert tree.is_full
    tree.clear()
    (after,) = stacks_of(tree, user, [list(range(1, 12))])
    assert before is not None and after is not None and before is not after and tuple(before) == tuple(after)
