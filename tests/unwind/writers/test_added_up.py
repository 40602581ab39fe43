"""Samples that are added up: what is written of them is what is written of all samples one by one, put together."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.support.answers import ORDER, PAYMENT, UNKNOWN, either, left_out, unique, unmerged
from tests.support.builds import uncompiled
from unwind.resolve.resolved import AnsweredSums, AnsweredTree, Resolved, StackAnswers, WholeStack
from unwind.samples.calls import CallTree, stacks_at
from unwind.samples.recording import Label, RecordedFrame, RecordedProcess, Recording, Sample
from unwind.samples.sums import StackSums
from unwind.writers import _stacks, stack_texts
from unwind.writers.collapsed import CollapsedWriter
from unwind.writers.named import Namer
from unwind.writers.perf_script import PerfScriptWriter
from unwind.writers.text import TextWriter

ANSWERS = (
    unique(0x1136, ORDER, inlined="_Z4copyv", missing=(left_out(PAYMENT),)),
    unique(0x1136, PAYMENT),
    either(0x1180),
    unmerged(0x1190, "main"),
    UNKNOWN,
)
FRAMES = tuple(RecordedFrame(answer.address) for answer in ANSWERS)  # each frame has one answer, so is its own state
PROCESS, LABELS = RecordedProcess(1), (Label("comm", "shop"),)


@pytest.fixture(params=[_stacks, uncompiled(_stacks)], ids=["installed", "uncompiled"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("deepest", "write_stacks"):
        monkeypatch.setattr(stack_texts, name, getattr(request.param, name))
    monkeypatch.setattr(stack_texts, "_AT_ONCE_BYTES", 100)


def some_stacks(choose: random.Random, deepest: int) -> dict[tuple[int, ...], int]:
    depths = [*(choose.randrange(1, deepest) for _ in range(50)), deepest]
    return {tuple(choose.choices(range(len(FRAMES)), k=depth)): choose.choice((1, 7, 30)) for depth in depths}


def added_up(stacks: dict[tuple[int, ...], int], whole: int) -> AnsweredSums:
    """Return stacks as the resolver answers them; the last `whole` of them by themselves."""
    calls = CallTree()
    nodes = [calls.node_of(PROCESS, [FRAMES[number] for number in stack], True) for stack in stacks]
    tree = AnsweredTree(calls)
    for frame, answer in zip(FRAMES, ANSWERS, strict=True):
        tree.frames.append(frame)
        tree.answers.append(answer)
        tree.processes.append(PROCESS)
    state_of = {calls.number(frame): state for state, frame in enumerate(FRAMES, 1)}
    for node in range(2, calls.node_count):
        tree.states[node] = state_of[calls.nodes[node] & 0xFFFFFFFF]
    counts = np.array(list(stacks.values()), np.int64)
    sums = StackSums(calls, PROCESS, LABELS, np.array(nodes, np.uint64), counts, [counts])
    resolved = [one(stack, tuple(stacks_at(calls, [node])[0])) for stack, node in zip(stacks, nodes, strict=True)]
    alone = [WholeStack(*each) for each in zip(nodes, stacks.values(), resolved, strict=True)]
    is_whole = np.arange(len(nodes)) >= len(nodes) - whole
    return AnsweredSums(sums.only(~is_whole), tree, [WholeStack(n, c, weighed(r, c)) for n, c, r in alone[-whole:]])


def one(stack: tuple[int, ...], frames: tuple[RecordedFrame, ...] | None = None) -> Resolved:
    frames = frames or tuple(FRAMES[number] for number in stack)
    return Resolved(Sample(frames, PROCESS, (1,), LABELS), StackAnswers([ANSWERS[number] for number in stack]))


def weighed(resolved: Resolved, weight: int) -> Resolved:
    return resolved._replace(sample=resolved.sample._replace(weights=(weight,)))


def blocks(text: bytes) -> Counter[str]:
    """Return how often each stack is written, whatever the width of the frames' numbers."""
    found: Counter[str] = Counter()
    for block in text.decode().split("\n\n")[:-1]:
        head, frames = block.split("\n", 1)
        seen = re.fullmatch(r"stack \d+(?:, seen ([\d,]+) times)?", head)
        assert seen is not None
        found[re.sub(r"(?m)^(#\d+)? +", r"\1 ", frames)] += int((seen[1] or "1").replace(",", ""))
    return found


@pytest.mark.parametrize("seed, deepest", [(1, 9), (2, 10), (3, 11), (4, 123)])
@pytest.mark.parametrize("whole", [1, 5])
def test_text_has_each_stack_once(seed: int, deepest: int, whole: int) -> None:
    stacks = some_stacks(random.Random(seed), deepest)
    writer, each = TextWriter(), TextWriter()
    sums = added_up(stacks, whole)
    written = b"".join([*writer.write_sums(sums), *writer.end()])
    one_by_one = b"".join([each.write(one(stack)) for stack, count in stacks.items() for _ in range(count)])
    assert blocks(written) == blocks(one_by_one)
    heads = re.findall(rb"(?m)^stack (\d+)(?:, seen (\d+) times)?$", written)
    assert [int(number) for number, _ in heads] == list(range(1, len(stacks) + 1))
    counts = [int(count or 1) for _, count in heads]
    assert counts == sorted(counts, reverse=True)
    assert sums.sample_count == sum(stacks.values())


def test_numbers_are_as_wide_as_those_of_the_deepest_stack() -> None:
    sums = added_up({(3,): 1, tuple([3] * 11): 2}, 1)
    writer = TextWriter()
    lines = b"".join([*writer.write_sums(sums), *writer.end()]).decode().splitlines()
    assert lines[0] == "stack 1, seen 2 times" and lines[1].startswith("#0   0x") and lines[11].startswith("#10  0x")
    assert lines[13] == "stack 2" and lines[14].startswith("#0   0x")


def test_another_tree_begins_when_the_one_before_it_was_written() -> None:
    writer = TextWriter()
    assert not list(writer.write_sums(added_up({(3,): 5, (1, 3): 1}, 1)))
    first = b"".join(writer.write_sums(added_up({(2, 3): 9, (0, 3): 2}, 1)))
    assert first.startswith(b"stack 1, seen 5 times\n") and b"stack 2\n" in first
    assert b"".join(writer.end()).startswith(b"stack 3, seen 9 times\n")
    assert not list(writer.end())


@pytest.mark.parametrize("whole", [1, 5])
def test_collapsed_stacks_are_the_same(whole: int) -> None:
    stacks = some_stacks(random.Random(5), 20)
    writer, each = CollapsedWriter(Recording("f", []), Namer()), CollapsedWriter(Recording("f", []), Namer())
    assert not list(writer.write_sums(added_up(stacks, whole)))
    for stack, count in stacks.items():
        each.write(weighed(one(stack), count))
    assert b"".join(writer.end()) == b"".join(each.end())


def test_perf_script_writes_many_samples_as_it_writes_each() -> None:
    stacks = some_stacks(random.Random(6), 30)
    sums = added_up(stacks, len(stacks))
    of_tree = []
    for node, _, resolved in sums.whole:
        answers = StackAnswers(resolved.answers)
        answers.tree, answers.node = sums.tree, node
        of_tree.append(resolved._replace(answers=answers))
    batch = [*of_tree[:9], one((0, 3)), *of_tree[9:], one(()), of_tree[0]]
    many, each = PerfScriptWriter(Namer(), "cycles"), PerfScriptWriter(Namer(), "cycles")
    assert b"".join(many.write_batch(batch)) == b"".join(map(each.write, batch))
