"""Stacks of threads that move between cores: those that they have in files of their own, or fewer callers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.builds import uncompiled
from tests.support.core_traces import FILETYPE, Event, Recorder, recorded, write_cores
from tests.support.paths import ROOT
from tests.support.traces import NOP, RET, START, SYSCALL
from unwind.samples.recording import RecordedModule, RecordedProcess
from unwind.trace import _stretches, stretches
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace.container import TraceFile, trace_files
from unwind.trace.cores import samples_of_cores
from unwind.trace.reader import TraceReader
from unwind.trace.recording import recording_of
from unwind.trace.seek import seek_time
from unwind.trace.stacks import TraceStacks
from unwind.trace.stretches import WANTED, find_stretches
from unwind.trace.writer import TraceWriter

DATA = next((each for folder in ROOT.parents if (each := folder / "shared/data/drmemtrace").exists()), None)
PROCESS = RecordedProcess(modules=[RecordedModule("shop")])
STACK = 0x7FFF0000
Counts = Counter[tuple[int | None, ...]]


@pytest.fixture(params=[_stretches, uncompiled(_stretches)], ids=["installed", "uncompiled"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(stretches, "next_stretch", request.param.next_stretch)
    return request.param


def counted(files: Sequence[str], *, is_whole: bool = True) -> Counts:
    counts: Counts = Counter()
    for sample in samples_of_cores(files, PROCESS, [(0x3000, 0x4000)], is_whole=is_whole):
        counts[tuple(frame.address for frame in sample.frames)] += sample.weights[0]
    return counts


def counted_alone(path: Path) -> Counts:
    counts: Counts = Counter()
    with TraceFile(str(path)) as file:
        for sample in TraceStacks(TraceReader(file), PROCESS, []).samples():
            counts[tuple(frame.address for frame in sample.frames)] += sample.weights[0]
    return counts


def walk(seed: int, start: int) -> tuple[list[Event], Counts]:
    """Return a run of calls, returns, loops and steps, and the stacks of its instructions."""
    recorder, chance = Recorder(), random.Random(seed)
    stack: list[int] = []
    truth: Counts = Counter()
    at = start
    for _ in range(800):
        kind = chance.randrange(6)
        truth[at, *reversed(stack)] += 1
        if kind == 0 and len(stack) < 20:
            target = start + 0x1000 * chance.randrange(6)
            recorder.instruction(k.DIRECT_CALL, at, b"\xe8" + (target - at - 5).to_bytes(4, "little", signed=True))
            stack.append(at + 5)
            recorder.data(k.WRITE, STACK - 16 * len(stack), 8)
            at = target
        elif kind == 1 and stack:
            recorder.instruction(k.RETURN, at, RET, stack[-1])
            recorder.data(k.READ, STACK - 16 * len(stack), 8)
            at = stack.pop()
        elif kind == 2:
            target = at & ~0xFFF
            recorder.instruction(k.DIRECT_JUMP, at, b"\xe9" + (target - at - 5).to_bytes(4, "little", signed=True))
            at = target
        else:
            recorder.instruction(k.INSTRUCTION, at, NOP)
            at += 1
    return recorder.events, truth


def is_right(counts: Counts, truth: Counts) -> bool:
    """Return whether stacks are those of threads, or have fewer callers."""
    outer = {stack[:end] for stack in truth for end in range(1, len(stack) + 1)}
    return sum(counts.values()) == sum(truth.values()) and counts.keys() <= outer


@pytest.mark.parametrize(("quantum", "least"), [(3, 0.0), (20, 0.2), (300, 0.99)])
@pytest.mark.parametrize("seed", range(6))
def test_stacks_are_those_of_the_threads(quantum: int, least: float, seed: int, tmp_path: Path, build: Any) -> None:
    threads, truth = {}, Counter[Any]()
    for tid in (5, 6, 7):
        threads[tid], stacks = walk(seed * 10 + tid, 0x100000 * tid)
        truth += stacks
    folder = write_cores(tmp_path / "a", threads, core_count=3, quantum=quantum, chance=random.Random(seed))
    counts = counted(trace_files(str(folder)))
    assert is_right(counts, truth)
    assert (counts & truth).total() >= least * truth.total()


@pytest.mark.skipif(DATA is None, reason="needs the traces of DynamoRIO beside the checkout")
def test_a_recorded_trace_has_the_same_stacks_when_its_threads_move(tmp_path: Path) -> None:
    assert DATA is not None
    paths = [DATA / "threadsig.main.trace.zip", DATA / "simple_app.chunked.trace.zip"]
    threads = {tid: recorded(path) for tid, path in enumerate(paths, 10)}
    truth = counted_alone(paths[0]) + counted_alone(paths[1])
    for seed, quantum, share in ((1, 5000, 1), (0, 500, 1), (1, 100, 0.5), (0, 20, 0.2)):
        chance = random.Random(seed)
        folder = write_cores(tmp_path / f"{seed}-{quantum}", threads, core_count=3, quantum=quantum, chance=chance)
        counts = counted(trace_files(str(folder)))
        assert is_right(counts, truth)
        assert (counts & truth).total() >= share * truth.total()


def two_cores(tmp_path: Path) -> list[str]:
    """A thread calls one function, moves, returns and calls another, and moves back; nothing else runs meanwhile."""
    files = [str(tmp_path / f"drmemtrace.core.{core}.trace") for core in range(2)]
    with TraceWriter(files[0], filetype=FILETYPE) as first, TraceWriter(files[1], filetype=FILETYPE) as second:
        for core, trace in enumerate((first, second)):
            trace.begin(5, 1, START, core)
        first.instruction(k.DIRECT_CALL, 0x100, b"\xe8\xfb\x00\x00\x00")  # to 0x200
        first.instruction(k.INSTRUCTION, 0x200, NOP)
        first.marker(k.CORE_IDLE, 0)
        second.instruction(k.RETURN, 0x201, RET, 0x105)
        second.instruction(k.DIRECT_CALL, 0x105, b"\xe8\xf6\x00\x00\x00")  # to 0x200
        first.instruction(k.INSTRUCTION, 0x200, NOP)
        first.record(k.THREAD_EXIT, 4, 5)
    return files


def test_a_core_that_waited_goes_on_with_what_ran_elsewhere(tmp_path: Path) -> None:
    files = two_cores(tmp_path)
    assert counted(files) == {(0x100,): 1, (0x200, 0x105): 1, (0x201, 0x105): 1, (0x105,): 1, (0x200, 0x10A): 1}


@pytest.mark.parametrize("code", [NOP, RET])
def test_a_thread_that_goes_on_elsewhere_has_run_on_another_core(code: bytes, tmp_path: Path, build: Any) -> None:
    path = str(tmp_path / "drmemtrace.core.0.trace")
    with TraceWriter(path, filetype=FILETYPE) as trace:
        trace.begin(5, 1, START)
        trace.instruction(k.DIRECT_CALL, 0x100, b"\xe8\xfb\x00\x00\x00")
        if code == NOP:
            trace.instruction(k.INSTRUCTION, 0x200, NOP)
        else:
            trace.instruction(k.RETURN, 0x200, RET, 0x105)
        trace.instruction(k.INSTRUCTION, 0x300, NOP)
        trace.record(k.THREAD_EXIT, 4, 5)
    assert counted([path]) == {(0x100,): 1, (0x200, 0x105): 1, (0x300,): 1}


@pytest.mark.parametrize(("chosen", "is_whole"), [([0], False), ([1], True)])
def test_without_all_cores_a_thread_that_moved_has_no_callers(
    chosen: list[int], is_whole: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = two_cores(tmp_path)
    with caplog.at_level("INFO"):
        counts = counted([files[each] for each in chosen], is_whole=is_whole)
    if chosen == [0]:
        assert counts == {(0x100,): 1, (0x200, 0x105): 1, (0x200,): 1}
    else:
        assert counts == {(0x201,): 1, (0x105,): 1}
    assert "not all cores of the trace are there" in caplog.text


def test_each_window_has_cores_of_its_own(tmp_path: Path) -> None:
    for window in ("window.0000", "window.0001"):
        (tmp_path / "trace" / window).mkdir(parents=True)
        two_cores(tmp_path / "trace" / window)
    counts: Counts = Counter()
    for sample in recording_of(str(tmp_path), trace_files(str(tmp_path)), None, str(modules(tmp_path))).samples:
        counts[tuple(frame.address for frame in sample.frames)] += sample.weights[0]
    assert counts == dict.fromkeys(((256,), (512, 261), (513, 261), (261,), (512, 266)), 2)


def modules(folder: Path) -> Path:
    """Write a modules.log of a program at 0x1000."""
    text = (
        "Module Table: version 5, count 1\n"
        "Columns: id, containing_id, start, end, entry, offset, preferred_base, (custom fields), path\n"
        "  0, 0, 0x1000, 0x4000, 0x0, 0000000000000000, 0x1000, v#1,0, /bin/shop\n"
    )
    (folder / "modules.log").write_text(text)
    return folder / "modules.log"


def test_where_nothing_says_what_a_thread_ran_before_a_line_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = [str(tmp_path / f"drmemtrace.core.{core}.trace") for core in range(3)]
    for core, path in enumerate(files):
        with TraceWriter(path, filetype=FILETYPE) as trace:
            trace.begin(5, 1, START, core)
            if core:
                trace.instruction(k.INDIRECT_JUMP, 0x200, b"\xff\xe0", 0x200)
            else:
                trace.instruction(k.DIRECT_CALL, 0x100, b"\xe8\xfb\x00\x00\x00")
    with caplog.at_level("INFO"):
        assert counted(files) == {(0x100,): 1, (0x200,): 2}
    assert "2 of 2 times nothing says where a thread that goes on was before" in caplog.text


@pytest.mark.parametrize(
    ("back", "slot", "is_same"), [(0x205, STACK - 16, True), (0x405, STACK - 16, False), (0x205, STACK + 999, False)]
)
def test_a_thread_that_changes_between_stacks(back: int, slot: int, is_same: bool, tmp_path: Path) -> None:
    """Nothing says in which order it returned from 0x301, three times; to the caller before, or on another stack."""
    files = [str(tmp_path / f"drmemtrace.core.{core}.trace") for core in range(2)]
    with TraceWriter(files[0], filetype=FILETYPE) as first, TraceWriter(files[1], filetype=FILETYPE) as second:
        for core, trace in enumerate((first, second)):
            trace.begin(6, 1, START, core)
            trace.thread(5, 1)
        for at, target, where in ((0x100, 0x200, STACK), (0x200, 0x300, STACK - 16)):
            first.instruction(k.DIRECT_CALL, at, b"\xe8" + (target - at - 5).to_bytes(4, "little"))
            first.data(k.WRITE, where, 8)
        first.instruction(k.INSTRUCTION, 0x300, NOP)
        first.thread(6, 1)
        first.thread(5, 1)
        for trace in (first, second, second):
            trace.instruction(k.RETURN, 0x301, RET, back)
            trace.data(k.READ, slot, 8)
            trace.instruction(k.DIRECT_JUMP, back, b"\xeb\xf9")
            trace.instruction(k.DIRECT_CALL, back - 5, b"\xe8" + (0x300 - back).to_bytes(4, "little", signed=True))
            trace.data(k.WRITE, slot, 8)
            trace.instruction(k.INSTRUCTION, 0x300, NOP)
            trace.thread(6, 1)
            trace.thread(5, 1)
        second.instruction(k.INSTRUCTION, 0x301, NOP)
        second.record(k.THREAD_EXIT, 4, 5)
    counts = counted(files)
    returns = {stack: count for stack, count in counts.items() if stack[0] == 0x301}
    assert returns == ({(0x301, 0x205, 0x105): 4} if is_same else {(0x301,): 4})


def level(tmp_path: Path, run: Callable[[TraceWriter], None]) -> bool:
    path = tmp_path / "a.trace"
    with TraceWriter(str(path), filetype=FILETYPE) as trace:
        trace.begin(5, 1, START)
        run(trace)
    with TraceFile(str(path)) as file:
        return find_stretches(TraceReader(file, WANTED))[0][0].is_level


def test_what_leaves_the_stack_as_it_was(tmp_path: Path, build: Any) -> None:
    call, call_slot = b"\xe8\xfb\x00\x00\x00", b"\xff\x50\x10"

    def calls(trace: TraceWriter) -> None:
        trace.instruction(k.DIRECT_CALL, 0x100, call)
        trace.instruction(k.RETURN, 0x200, RET, 0x105)

    def waits(trace: TraceWriter, kind: int = k.DIRECT_CALL, back: int = 0x105) -> None:
        trace.instruction(k.RETURN, 0x200, RET, back)
        trace.instruction(k.DIRECT_JUMP, back, b"\xeb\xf9")
        trace.instruction(kind, 0x100, call if kind == k.DIRECT_CALL else call_slot + b"\x66\x90", 0x200)

    def waits_at(trace: TraceWriter, slot: int) -> None:
        trace.instruction(k.RETURN, 0x200, RET, 0x105)
        trace.data(k.READ, STACK, 8)
        trace.instruction(k.DIRECT_JUMP, 0x105, b"\xeb\xf9")
        trace.instruction(k.DIRECT_CALL, 0x100, call)
        trace.data(k.WRITE, slot, 8)

    def calls_at(trace: TraceWriter, slot: int) -> None:
        trace.instruction(k.INDIRECT_CALL, 0x100, call_slot + b"\x66\x90", 0x200)
        trace.data(k.READ, 0x3010, 8)
        trace.data(k.WRITE, STACK, 8)
        trace.instruction(k.INSTRUCTION, 0x200, NOP)
        trace.data(k.WRITE, STACK + 99, 8)
        trace.instruction(k.RETURN, 0x201, RET, 0x105)
        trace.data(k.READ, slot, 8)

    def jumps(trace: TraceWriter) -> None:
        trace.instruction(k.INDIRECT_JUMP, 0x100, b"\xff\xe0", 0x200)

    def jumps_in_a_call(trace: TraceWriter) -> None:
        trace.instruction(k.DIRECT_CALL, 0x100, call)
        jumps(trace)
        trace.instruction(k.RETURN, 0x200, RET, 0x105)

    def leaves_otherwise(trace: TraceWriter) -> None:
        trace.instruction(k.DIRECT_CALL, 0x100, call)
        trace.instruction(k.RETURN, 0x200, RET, 0x305)

    def is_interrupted(trace: TraceWriter) -> None:
        trace.instruction(k.INSTRUCTION, 0x100, NOP)
        trace.marker(k.KERNEL_EVENT, 0x101)

    def goes_deep(trace: TraceWriter) -> None:
        for _ in range(65):
            trace.instruction(k.DIRECT_CALL, 0x1FB, b"\xe8" + bytes(4))
        for _ in range(65):
            trace.instruction(k.RETURN, 0x200, RET, 0x200)

    for run in (calls, waits, jumps_in_a_call):
        assert level(tmp_path, run)
    for run in (jumps, leaves_otherwise, is_interrupted, goes_deep):
        assert not level(tmp_path, run)
    assert not level(tmp_path, lambda trace: waits(trace, back=0x305))
    for on_a_stack in (waits_at, calls_at):
        assert level(tmp_path, lambda trace, run=on_a_stack: run(trace, STACK))  # type: ignore[misc]
        assert not level(tmp_path, lambda trace, run=on_a_stack: run(trace, STACK + 0x1000))  # type: ignore[misc]
    # another function may be called there, as of another object
    assert not level(tmp_path, lambda trace: waits(trace, k.INDIRECT_CALL))
    assert not level(tmp_path, lambda trace: trace.instruction(k.RETURN, 0x200, RET, 0x105))


def test_a_core_on_which_nothing_ran_at_first(tmp_path: Path, build: Any) -> None:
    files = [str(tmp_path / f"drmemtrace.core.{core}.trace") for core in range(3)]
    for core, path in enumerate(files):
        with TraceWriter(path, filetype=FILETYPE) as trace:
            if core:
                trace.begin((1 << 64) - 2, 0, (1 << 64) - 1, (1 << 64) - 1)  # as record_filter of DynamoRIO writes it
                trace.marker(k.CORE_IDLE, 0)
            if core < 2:
                trace.begin(5 + core, 1, START, core)
                trace.instruction(k.DIRECT_CALL, 0x100, b"\xe8\xfb\x00\x00\x00")
                trace.instruction(k.INSTRUCTION, 0x200, NOP)
                trace.record(k.THREAD_EXIT, 4, 5 + core)
            if core == 1:
                trace.record(k.FOOTER, 0, 0)
                trace.marker(k.CORE_IDLE, 0)
    for path in files:
        with TraceFile(path) as file:
            assert not find_stretches(TraceReader(file, WANTED))[1]
    assert counted(files) == {(0x100,): 2, (0x200, 0x105): 2}
    with TraceFile(files[1]) as file:
        reader = TraceReader(file)
        seek_time(reader, START)
        assert reader.state[c.TIME] == 0 and sum(len(rows) for rows in reader.rows()) == 8


def test_a_call_of_the_system_may_begin_again(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with TraceWriter(str(path), filetype=FILETYPE) as trace:
        trace.begin(5, 1, START)
        trace.instruction(k.INSTRUCTION, 0x100, SYSCALL)
        trace.marker(k.SYSCALL, 202)
        trace.thread(6, 1)
        trace.instruction(k.NO_FETCH, 0x100, b"\xf3\xa4")
        trace.thread(5, 1)
        trace.instruction(k.TAKEN_JUMP, 0x102, b"\x75\x0e")
    with TraceFile(str(path)) as file:
        found, _ = find_stretches(TraceReader(file, WANTED))
    assert [each.following for each in found] == [(0x100, 0x102), (0x100, 0x102), (0x112,)]
    assert [each.first for each in found] == [0x100, None, 0x102]
    assert [each.thread for each in found] == [(1, 5), (1, 6), (1, 5)]
