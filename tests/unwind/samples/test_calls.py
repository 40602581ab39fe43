"""Trees of calls: stacks come back as they went in, share their callers, and get the states of a naive walk."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.support.builds import uncompiled
from unwind.samples import _tree, calls, path_tree
from unwind.samples import columns as c
from unwind.samples.calls import CallTree, stacks_at
from unwind.samples.recording import RecordedFrame, RecordedProcess

BUILDS = [_tree, uncompiled(_tree)]


@pytest.fixture(params=BUILDS, ids=["installed", "uncompiled"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(calls, "frames_along", request.param.frames_along)
    for name in ("add_path", "refill"):
        monkeypatch.setattr(path_tree, name, getattr(request.param, name))
    monkeypatch.setattr(path_tree, "_NODES", 2)  # so that the tree grows often
    return request.param


def random_stacks(frames: list[RecordedFrame]) -> list[tuple[RecordedFrame, ...]]:
    random_ = random.Random(1)
    return [tuple(random_.choices(frames, k=random_.randrange(1, 7))) for _ in range(400)]


def test_stacks_come_back_as_they_went_in(kernel: Any) -> None:
    frames = [RecordedFrame(idx) for idx in range(4)]
    processes = [RecordedProcess(1), RecordedProcess(2)]
    tree = CallTree()
    met: dict[tuple[int, bool, tuple[RecordedFrame, ...]], int] = {}
    for idx, stack in enumerate(random_stacks(frames)):
        process, is_called = processes[idx % 2], idx % 3 == 0
        node = tree.node_of(process, stack, is_called)
        assert met.setdefault((process.pid, is_called, stack), node) == node
        assert tuple(stacks_at(tree, [node])[0]) == stack
    assert len(set(met.values())) == len(met) > 250  # another node for each stack of each process
    assert tree.node_count < sum(len(stack) for _, _, stack in met)  # callers are shared
    assert tree.depth == 6


def test_an_empty_stack_is_the_root_of_its_process(kernel: Any) -> None:
    tree, process = CallTree(), RecordedProcess(1)
    assert tree.node_of(process, (), False) == tree.root(process) != tree.root(RecordedProcess(1))
    assert tuple(stacks_at(tree, [tree.root(process)])[0]) == ()


def test_states_are_those_of_a_naive_walk(kernel: Any) -> None:
    """A state is the caller's plus the number of the frame, modulo 97; what lies inwards of state 7 is held."""
    frames = [RecordedFrame(idx) for idx in range(5)]
    tree, process = CallTree(), RecordedProcess(1)
    stacks = random_stacks(frames)
    nodes = np.array([tree.node_of(process, stack, True) for stack in stacks], np.uint64)
    states = np.zeros(len(tree.nodes), np.uint32).data
    states[tree.root(process)] = 1
    turns, path = np.zeros((1 << 12, 2), np.uint64).data, np.zeros(tree.depth, np.uint64).data
    tree.state[c.AT] = 0
    asked = []
    while not kernel.follow(nodes.data, tree.nodes, states, turns, path, tree.state):
        caller, number = tree.state[c.WANTED_CALLER], tree.state[c.WANTED_NUMBER]
        asked.append((caller, number))
        state = (caller + number) % 97 + 1
        kernel.insert(turns, caller << c.NUMBER_BITS | number, state | (c.HELD if state == 7 else 0))
    assert len(asked) == len(set(asked))  # each step once
    answers = [f"answer {state}" for state in range(98)]
    for node, stack, along in zip(
        nodes.tolist(), stacks, kernel.answers_along(nodes.data, tree.nodes, states, answers), strict=True
    ):
        walked, is_held = [1], False
        for frame in reversed(stack):
            walked.append((walked[-1] + tree.number(frame)) % 97 + 1)
            is_held |= walked[-1] == 7
        assert states[node] == walked[-1] | (c.HELD if is_held else 0)
        assert along == [answers[state] for state in walked[:0:-1]]
