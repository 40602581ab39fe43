"""Stacks in columns: equal ones have one number, and the tree has them as if they were added one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.support.builds import uncompiled
from unwind.samples import _stack_columns, stack_columns
from unwind.samples import columns as c
from unwind.samples.calls import stacks_at
from unwind.samples.recording import RecordedModule, RecordedProcess
from unwind.samples.stack_columns import EXACT, FIRST, FIRST_MODULE, MODULE_BITS, NO_ADDRESS, StackTable

BUILDS = [_stack_columns, uncompiled(_stack_columns)]
MODULE = FIRST_MODULE << MODULE_BITS
EDGES = (0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


@pytest.fixture(params=BUILDS, ids=["installed", "uncompiled"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("add_stacks", "copy_rows", "keep_stacks", "refill_numbers", "refill_stacks"):
        monkeypatch.setattr(stack_columns, name, getattr(request.param, name))
    for name in ("_MET", "_NUMBERS", "_STACKS", "_FRAMES"):
        monkeypatch.setattr(stack_columns, name, 2)  # so that all grows often
    return request.param


def columns(stacks: list[list[tuple[int, int]]]) -> tuple[Any, Any, Any]:
    """Return addresses, kinds and starts of stacks of (address, kind)."""
    flat = [frame for stack in stacks for frame in stack]
    starts = np.cumsum([0, *map(len, stacks)]).astype(np.uint64)
    return np.array([each for each, _ in flat], np.uint64), np.array([kind for _, kind in flat], np.uint32), starts


def random_stacks(chance: random.Random) -> list[list[tuple[int, int]]]:
    kinds = (MODULE, MODULE | EXACT, MODULE + (1 << MODULE_BITS))
    frames = [(address, kind) for address in EDGES for kind in kinds] + [(0, NO_ADDRESS << MODULE_BITS)]
    stacks = [chance.choices(frames, k=chance.randrange(7)) for _ in range(300)]
    return [
        [(stack[0][0], stack[0][1] | FIRST), *stack[1:]] if stack and chance.random() < 0.7 else stack
        for stack in stacks
    ]


def test_stacks_come_back_as_they_went_in(kernel: Any) -> None:
    chance, modules = random.Random(1), [RecordedModule("a"), RecordedModule("b")]
    table = StackTable(modules)
    roots = [table.calls.root(RecordedProcess(pid)) for pid in (1, 2)]
    met: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
    for _ in range(3):
        stacks = random_stacks(chance)
        own = [roots[chance.randrange(2)] for _ in stacks]
        numbers, new = table.keep(*columns(stacks), np.array(own, np.uint64))
        assert new.first == len(met)
        for root, stack, number in zip(own, stacks, numbers.tolist(), strict=True):
            assert met.setdefault((root, tuple(stack)), number) == number
            assert table.is_called(number) == bool(stack and not stack[0][1] & FIRST)
            (frames,) = stacks_at(table.calls, [int(table.nodes[number])])
            expected = [
                (None, None)
                if kind >> MODULE_BITS == NO_ADDRESS
                else (address, modules[(kind >> MODULE_BITS) - FIRST_MODULE])
                for address, kind in stack
            ]
            assert [(frame.address, frame.module) for frame in frames] == expected
            assert [frame.is_exact for frame in frames] == [bool(kind & EXACT) for _, kind in stack]
        assert len(new.nodes) == len(met) - new.first
        assert new.is_called.tolist() == [table.is_called(new.first + at) for at in range(len(new.nodes))]
    assert sorted(met.values()) == list(range(len(met)))
    assert len(met) > 300
    assert len({frame for stack in met for frame in stack[1]}) == len(table.calls.frames)


def test_rows_of_frames_are_kept_with_their_stack(kernel: Any) -> None:
    chance = random.Random(2)
    table, stacks = StackTable([RecordedModule("a"), RecordedModule("b")]), random_stacks(random.Random(2))
    root = table.calls.root(RecordedProcess())
    addresses, kinds, starts = columns(stacks)
    numbers, new = table.keep(addresses, kinds, starts, np.full(len(stacks), root, np.uint64))
    states = [chance.randrange(1, 50) for _ in range(table.calls.node_count)]
    held = np.array([state | c.HELD if state % 2 else state for state in states], np.uint32)
    rows = np.array([0, *(1000 + idx for idx in range(1, 50))], np.uint32)
    kernel.rows_along(new.nodes, new.starts, table.calls.nodes, held.data, rows, table.rows)
    found = table.rows_of(numbers, starts)
    for stack, number, start in zip(stacks, numbers.tolist(), starts.tolist(), strict=False):
        node, expected = int(table.nodes[number]), []
        for _ in stack:
            expected.append(1000 + states[node])
            node = int(table.calls.nodes[node]) >> c.NUMBER_BITS
        assert found[start : start + len(stack)].tolist() == expected
