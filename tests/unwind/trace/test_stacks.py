"""Instructions are counted with the calls that led to them; where these are not known, with none."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.builds import uncompiled
from tests.support.traces import NOP, RET, START
from unwind.samples.recording import RecordedModule, RecordedProcess
from unwind.trace import _stacks, stacks
from unwind.trace import layout as k
from unwind.trace.container import TraceFile
from unwind.trace.reader import TraceReader
from unwind.trace.stacks import TraceStacks
from unwind.trace.writer import TraceWriter

CALL, CALL_SLOT, JUMP = bytes.fromhex("e800000000"), bytes.fromhex("ff5010"), bytes.fromhex("ffe0")  # call [rax + 16]
STACK = 0x7FFF0000
Counts = dict[tuple[int, ...], int]


@pytest.fixture(params=[_stacks, uncompiled(_stacks)], ids=["installed", "uncompiled"], autouse=True)
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(stacks, "follow", request.param.follow)
    monkeypatch.setattr(stacks, "refill_sites", request.param.refill_sites)
    return request.param


class Machine:
    """Runs calls and returns, and writes what it runs."""

    def __init__(self, trace: TraceWriter, with_data: bool = True, with_targets: bool = True) -> None:
        self.trace, self.with_data, self.with_targets = trace, with_data, with_targets
        self.stack: list[int] = []
        self.truth: Counter[tuple[int, ...]] = Counter()
        trace.begin(1, 1, START)

    def step(self, at: int) -> None:
        self._run(k.INSTRUCTION, at, NOP)

    def call(self, at: int) -> None:
        self._run(k.DIRECT_CALL, at, CALL)
        self.stack.append(at + 5)
        self._access(k.WRITE)

    def leave(self, at: int) -> None:
        target = self.stack[-1]
        self._run(k.RETURN, at, RET, target)
        self._access(k.READ)
        self.stack.pop()

    def jump(self, at: int, target: int) -> None:
        self._run(k.INDIRECT_JUMP, at, JUMP, target)

    def _run(self, kind: int, at: int, code: bytes, target: int | None = None) -> None:
        self.truth[at, *reversed(self.stack)] += 1
        self.trace.instruction(kind, at, code, target if self.with_targets else None)

    def _access(self, kind: int) -> None:
        if self.with_data:
            self.trace.data(kind, STACK - 16 * len(self.stack), 8)


def counted(path: Path) -> Counts:
    counts: Counter[tuple[int, ...]] = Counter()
    process = RecordedProcess(modules=[RecordedModule("shop")])
    with TraceFile(str(path)) as file:
        for sample in TraceStacks(TraceReader(file), process, [(0x3000, 0x4000)]).samples():
            counts[tuple(frame.address or 0 for frame in sample.frames)] += sample.weights[0]
    return dict(counts)


Run = Callable[[Machine], None]


def traced(tmp_path: Path, run: Run, *, with_data: bool = True, version: int = 7) -> tuple[Counts, Counts]:
    """Return what the stacks of a run are and what was counted."""
    path = tmp_path / "a.trace"
    with TraceWriter(str(path), filetype=k.HAS_ENCODINGS | k.IS_X86_64, version=version) as trace:
        machine = Machine(trace, with_data, version >= 5)
        run(machine)
    return dict(machine.truth), counted(path)


@pytest.mark.parametrize(("with_data", "version"), [(True, 7), (False, 7), (True, 4)])
def test_calls_and_returns(with_data: bool, version: int, tmp_path: Path) -> None:
    def run(machine: Machine) -> None:
        chance = random.Random(1)
        for _ in range(400):
            depth = len(machine.stack)
            at = 0x1000 * (depth + 1)
            kind = chance.randrange(3)
            if kind == 0 and depth < 40:
                machine.call(at + 16 * chance.randrange(4))
            elif kind == 1 and depth:
                target = machine.stack[-1]
                machine.leave(at + 1)
                machine.step(target)
            else:
                machine.step(at + 3)

    truth, counts = traced(tmp_path, run, with_data=with_data, version=version)
    assert counts == truth


def test_a_trace_that_starts_within_calls(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with TraceWriter(str(path), filetype=k.HAS_ENCODINGS) as trace:
        trace.begin(1, 1, START)
        trace.instruction(k.INSTRUCTION, 0x100, NOP)
        trace.instruction(k.RETURN, 0x101, RET, 0x205)
        trace.instruction(k.DIRECT_CALL, 0x205, CALL)
        trace.instruction(k.INSTRUCTION, 0x300, NOP)
    assert counted(path) == {(0x100,): 1, (0x101,): 1, (0x205,): 1, (0x300, 0x20A): 1}


def test_a_tail_call_leaves_the_callers_as_they_are(tmp_path: Path) -> None:
    def run(machine: Machine) -> None:
        machine.call(0x100)
        machine.jump(0x200, 0x300)
        machine.step(0x300)
        machine.leave(0x301)
        machine.step(0x105)

    truth, counts = traced(tmp_path, run)
    assert counts == truth
    assert counts[0x300, 0x105] == 1


def test_longjmp_hides_callers_until_the_next_call_shows_them(tmp_path: Path) -> None:
    def run(machine: Machine) -> None:
        machine.call(0x100)  # f, which calls setjmp, then g, which calls h, which calls longjmp
        machine.call(0x200)
        machine.leave(0x900)
        machine.call(0x210)
        machine.call(0x300)
        machine.jump(0x400, 0x205)
        machine.stack = machine.stack[:1]
        machine.step(0x205)
        machine.call(0x220)
        machine.step(0x500)
        machine.leave(0x501)
        machine.leave(0x225)
        machine.step(0x105)

    truth, counts = traced(tmp_path, run)
    assert counts[0x205,] == 1 and (0x205, 0x105) not in counts  # not known there
    hidden: dict[tuple[int, ...], tuple[int, ...]] = {(0x205, 0x105): (0x205,), (0x220, 0x105): (0x220,)}
    assert counts == {hidden.get(stack, stack): count for stack, count in truth.items()}
    truth, counts = traced(tmp_path, run, with_data=False)
    assert all(stack in truth or len(stack) < 3 for stack in counts)  # fewer callers, no wrong ones
    assert counts[0x105,] == 1


def test_a_switch_to_what_follows_a_call_hides_nothing(tmp_path: Path) -> None:
    def run(machine: Machine) -> None:
        machine.call(0x100)
        machine.call(0x200)
        machine.leave(0x900)
        machine.jump(0x210, 0x205)
        machine.step(0x205)

    truth, counts = traced(tmp_path, run)
    assert counts == truth


def test_a_signal_has_no_caller_and_ends_where_it_came(tmp_path: Path) -> None:
    def run(machine: Machine) -> None:
        machine.call(0x100)
        machine.trace.marker(k.KERNEL_EVENT, 0x200)
        outer, machine.stack = machine.stack, []
        machine.step(0x800)
        machine.call(0x801)
        machine.leave(0x900)
        machine.trace.instruction(k.RETURN, 0x806, RET, 0x990)  # to what calls sigreturn
        machine.truth[0x806,] += 1
        machine.step(0x990)
        machine.trace.marker(k.KERNEL_XFER, 0x991)
        machine.stack = outer
        machine.step(0x200)

    truth, counts = traced(tmp_path, run)
    assert counts == truth
    assert counts[0x200, 0x105] == 1


def test_recursion_returns_to_the_call_of_which_it_read_the_address(tmp_path: Path) -> None:
    def run(machine: Machine) -> None:
        for at in (0x100, 0x200, 0x200, 0x200):  # f calls itself
            machine.call(at)
        machine.stack = machine.stack[:3]  # one return was left out, as by a longjmp that is not seen
        machine.leave(0x300)
        machine.step(0x205)

    truth, counts = traced(tmp_path, run)
    assert counts[0x205, 0x205, 0x105] == truth[0x205, 0x205, 0x105] == 1


def test_a_virtual_call_has_the_vtable_that_it_loaded_from(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with TraceWriter(str(path), filetype=k.HAS_ENCODINGS | k.IS_X86_64) as trace:
        trace.begin(1, 1, START)
        for slot in (0x3010, 0x3050, 0x9010):  # the last one is outside of the module
            trace.instruction(k.INDIRECT_CALL, 0x100, CALL_SLOT, 0x200)
            trace.data(k.READ, slot, 8)
            trace.data(k.WRITE, STACK, 8)
            trace.instruction(k.RETURN, 0x200, RET, 0x103)
            trace.data(k.READ, STACK, 8)
    process = RecordedProcess(modules=[RecordedModule("shop")])
    with TraceFile(str(path)) as file:
        samples = list(TraceStacks(TraceReader(file), process, [(0x3000, 0x4000)]).samples())
    found = {each.vptrs for each in samples if each.frames[0].address == 0x200}
    assert found == {((0, 0x3000),), ((0, 0x3040),), ()}


def test_threads_of_one_file_have_stacks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with TraceWriter(str(path), filetype=k.HAS_ENCODINGS) as trace:
        trace.begin(1, 1, START)
        for round_ in range(2):
            for tid in (1, 2):
                trace.record(k.THREAD, 4, tid)
                at = 0x1000 * tid
                if round_ == 0:
                    trace.instruction(k.DIRECT_CALL, at, CALL)
                else:
                    trace.instruction(k.INSTRUCTION, at + 0x100, NOP)
    assert counted(path) == {(0x1000,): 1, (0x2000,): 1, (0x1100, 0x1005): 1, (0x2100, 0x2005): 1}


def test_a_thread_goes_on_with_the_call_that_it_was_in(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with TraceWriter(str(path), filetype=k.HAS_ENCODINGS | k.IS_X86_64) as trace:
        trace.begin(1, 1, START)
        for tid, slot in ((1, 0x3010), (2, 0x3050)):
            trace.record(k.THREAD, 4, tid)
            trace.instruction(k.INDIRECT_CALL, 0x100 * tid, CALL_SLOT, 0x1000 * tid)
            trace.data(k.READ, slot, 8)
        for tid in (1, 2):
            trace.record(k.THREAD, 4, tid)
            trace.data(k.WRITE, STACK, 8)
            trace.instruction(k.INSTRUCTION, 0x1000 * tid, NOP)
    process = RecordedProcess(modules=[RecordedModule("shop")])
    with TraceFile(str(path)) as file:
        samples = list(TraceStacks(TraceReader(file), process, [(0x3000, 0x4000)]).samples())
    found = {tuple(frame.address for frame in each.frames): each.vptrs for each in samples}
    assert found == {(0x100,): (), (0x200,): (), (0x1000, 0x103): ((0, 0x3000),), (0x2000, 0x203): ((0, 0x3040),)}


def test_what_waiting_threads_keep_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, threads = tmp_path / "a.trace", 2000
    with TraceWriter(str(path), filetype=k.HAS_ENCODINGS) as trace:
        trace.begin(1, 1, START)
        for _ in range(2):
            for tid in range(1, threads):
                trace.record(k.THREAD, 4, tid)
                trace.instruction(k.DIRECT_CALL, 0x1000, CALL)
    tracemalloc.start()
    whole = counted(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert whole == {(0x1000,): threads - 1, (0x1000, 0x1005): threads - 1}
    assert peak < 1000 * threads + (8 << 20)

    monkeypatch.setattr(stacks, "_MOST_KEPT", 100 * 17)
    assert counted(path)[0x1000,] > threads


def test_deep_stacks_forget_their_outermost_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_FIRST_ROOM", 16)
    monkeypatch.setattr(stacks, "_MOST_FRAMES", 64)

    def run(machine: Machine) -> None:
        for _ in range(100):
            machine.call(0x100)
        for _ in range(30):
            machine.leave(0x200)
        machine.step(0x105)

    truth, counts = traced(tmp_path, run)
    assert counts == truth


def test_what_was_counted_is_handed_out_when_it_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_FIRST_ROOM", 16)
    monkeypatch.setattr(stacks, "_MOST_NODES", 64)

    def run(machine: Machine) -> None:
        for number in range(300):
            machine.call(0x100 * (number + 1))
            machine.step(0x100 * (number + 1) + 7)

    truth, counts = traced(tmp_path, run)
    assert sum(counts.values()) == sum(truth.values())
    assert all(any(other[: len(stack)] == stack for other in truth) for stack in counts)
