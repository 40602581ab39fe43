"""Copies the stacks of a running process: all of its threads are stopped for as long as that takes, some milliseconds.

    fork ──> child: seize and stop each thread ──> registers, stacks, words that pointers lead to ──> pipe ──> end
    parent: unwinds and names from the copy, while the process runs on

The kernel lets go of what a tracer has seized when the tracer ends. So the child is the tracer: it ends when all is
copied, after some seconds at the latest, and with its parent, whatever ends that. No thread stays stopped.

The vtable pointer of an object must be as it was when the stack was taken. An object of a frame is where a register or
a word of the stack points to, so the first word at each of these places is copied, too.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from icf.elf.types import Machine
from icf.errors import IcfError
from unwind.dumps import ptrace
from unwind.dumps.dump import SP, DumpedThread, ProcessDump
from unwind.dumps.register_order import NEEDED_BYTES, registers_of
from unwind.process.maps import Mapping, parse_maps

_MACHINES = {"x86_64": Machine.X86_64, "aarch64": Machine.AARCH64}
_STOP_LIMIT_S = 0.25  # a thread that has not stopped then waits for a disk, uninterruptibly
_LIMIT_S = 10
_LIST_LIMIT = 32
_PAUSE_S = 0.00005
_BELOW_BYTES = 256  # below the stack pointer: more than the red zone
_STACK_LIMIT_BYTES, _LIMIT_BYTES = 1 << 24, 1 << 28
_WORD_LIMIT = 1 << 16
_WORD_BYTES = 8


class _Copied(NamedTuple):
    """What the child has to say."""

    problem: str
    hint: str | None = None
    maps: bytes = b""
    registers: dict[int, bytes] = {}
    stacks: dict[int, bytes] = {}  # by address
    places: bytes = b""  # of words, ascending
    words: bytes = b""
    stuck: tuple[int, ...] = ()  # threads that did not stop


class LiveMemory:
    """Stacks of a process, and the words that they point to."""

    def __init__(self, stacks: dict[int, bytes], words: dict[int, int]) -> None:
        self._starts = sorted(stacks)
        self._stacks, self._words = stacks, words

    def extent(self, address: int) -> tuple[int, int] | None:
        """Return the start and end of the stack, or of the word, that has an address."""
        at = bisect_right(self._starts, address) - 1
        if at >= 0 and address < self._starts[at] + len(self._stacks[self._starts[at]]):
            start = self._starts[at]
            return start, start + len(self._stacks[start])
        return (address, address + _WORD_BYTES) if address in self._words else None

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes of a range that lies in one extent."""
        extent = self.extent(start)
        assert extent is not None and end <= extent[1]
        if start in self._words and extent == (start, start + _WORD_BYTES):
            return memoryview(self._words[start].to_bytes(_WORD_BYTES, "little"))[: end - start]
        return memoryview(self._stacks[extent[0]])[start - extent[0] : end - extent[0]]


class LiveDump(NamedTuple):
    """A process as it was, with its mappings then, and the threads that did not stop."""

    dump: ProcessDump
    mappings: list[Mapping]
    stuck: tuple[int, ...]


def copy_process(pid: int) -> LiveDump:
    """Return a copy of the stacks of a process, which runs on.

    Raises:
        IcfError: there is no such process, or it may not be stopped.
    """
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        raise IcfError(f"process {pid}: stacks on {os.uname().machine} are not read")
    copied = _copied_by_child(pid, machine)
    if copied.problem:
        raise IcfError(f"process {pid}: {copied.problem}", hint=copied.hint)
    threads = []
    for tid, content in copied.registers.items():
        if len(content) < NEEDED_BYTES[machine]:
            raise IcfError(f"process {pid}: is a 32-bit program, of which stacks are not read")
        threads.append(DumpedThread(tid, registers_of(machine, content), _text(f"/proc/{pid}/task/{tid}/comm")))
    words = np.frombuffer(copied.places, np.uint64).tolist(), np.frombuffer(copied.words, np.uint64).tolist()
    memory = LiveMemory(copied.stacks, dict(zip(*words, strict=True)))
    mappings = parse_maps(copied.maps, f"/proc/{pid}/maps")
    code = [(each.start, each.end) for each in mappings if each.is_executable]
    command = _text(f"/proc/{pid}/comm")
    dump = ProcessDump(f"process {pid}", machine, memory, threads, pid=pid, command=command, code=code)
    return LiveDump(dump, mappings, copied.stuck)


def _copied_by_child(pid: int, machine: Machine) -> _Copied:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _be_child(pid, machine, write_end)
    os.close(write_end)
    try:
        with open(read_end, "rb") as pipe:
            content = pipe.read()
    finally:
        os.waitpid(child, 0)
    if not content:
        return _Copied("its threads could not be stopped in time")
    copied: _Copied = pickle.loads(content)
    return copied


def _be_child(pid: int, machine: Machine, write_end: int) -> NoReturn:
    """Copy, write what was copied, and end; nothing of the parent runs in this process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_LIMIT_S)
        ptrace.end_with_parent()
        _warm_up(machine)
        _write(write_end, pickle.dumps(_copy(pid, machine)))
    finally:
        os._exit(0)


def _warm_up(machine: Machine) -> None:
    """Do what is done while threads are stopped, so that nothing is loaded for the first time then."""
    with open("/proc/self/maps", "rb") as file:
        mappings = parse_maps(file.read(), "/proc/self/maps")
    content = bytes(NEEDED_BYTES[machine])
    ptrace.read_words(os.getpid(), _pointed_to((content,), mappings))
    ptrace.read_memory(os.getpid(), mappings[0].start, _WORD_BYTES)


def _write(fd: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]


def _copy(pid: int, machine: Machine) -> _Copied:
    """Stop the threads of a process, copy, and let them go."""
    stopped: dict[int, int] = {}  # by thread: the signal that it is to get
    try:
        stuck = _stop(pid, stopped)
        return _copy_stopped(pid, machine, sorted(stopped), stuck)
    except FileNotFoundError:
        return _Copied("no such process")
    except PermissionError:
        return _denied(pid)
    except (ProcessLookupError, ValueError, IcfError):
        return _Copied("has ended")
    finally:
        for tid, number in stopped.items():
            ptrace.detach(tid, number)


def _stop(pid: int, stopped: dict[int, int]) -> tuple[int, ...]:
    """Stop all threads, those that start meanwhile included; return those that do not stop."""
    seen: set[int] = set()
    waiting: set[int] = set()
    until = time.monotonic() + _STOP_LIMIT_S
    for _ in range(_LIST_LIMIT):
        new = {int(name) for name in os.listdir(f"/proc/{pid}/task")} - seen
        if not new:
            break
        seen |= new
        waiting |= {tid for tid in sorted(new) if ptrace.seize(tid)}
        while waiting and time.monotonic() < until:
            for tid in list(waiting):
                try:
                    number = ptrace.stopped_by(tid)
                except ProcessLookupError:
                    waiting.discard(tid)
                    continue
                if number is not None:
                    waiting.discard(tid)
                    stopped[tid] = number
            if waiting:
                time.sleep(_PAUSE_S)
    return tuple(sorted(waiting))


def _copy_stopped(pid: int, machine: Machine, tids: Sequence[int], stuck: tuple[int, ...]) -> _Copied:
    if tids:
        pid = tids[0]  # a process has no memory under the number of its first thread once that has ended
    with open(f"/proc/{pid}/maps", "rb") as file:
        maps = file.read()
    mappings = parse_maps(maps, f"/proc/{pid}/maps")
    contents = {tid: ptrace.registers_of(tid) for tid in tids}
    registers = {tid: content for tid, content in contents.items() if content}
    if not registers or not mappings:
        return _Copied("has ended" if not stuck else "none of its threads stops: they wait uninterruptibly")
    stacks: dict[int, bytes] = {}
    left_bytes = _LIMIT_BYTES
    starts = [each.start for each in mappings]
    for content in registers.values():
        if len(content) < NEEDED_BYTES[machine]:
            continue  # of a 32-bit program
        sp = registers_of(machine, content)[SP[machine]]
        at = bisect_right(starts, sp) - 1
        if at >= 0 and sp < mappings[at].end and left_bytes:
            start = max(sp - _BELOW_BYTES, mappings[at].start) & -_WORD_BYTES
            piece = ptrace.read_memory(pid, start, min(mappings[at].end - start, _STACK_LIMIT_BYTES, left_bytes))
            stacks[start] = piece
            left_bytes -= len(piece)
    places = _pointed_to((*registers.values(), *stacks.values()), mappings)
    words = ptrace.read_words(pid, places)
    return _Copied("", None, maps, registers, stacks, places[: len(words)].tobytes(), words.tobytes(), stuck)


def _pointed_to(contents: Sequence[bytes], mappings: Sequence[Mapping]) -> NDArray[np.uint64]:
    """Return where the words of registers and stacks point to: addresses in memory of the process's own."""
    own = [each for each in mappings if each.rights.startswith("rw") and each.rights.endswith("p")]
    starts, ends = (np.array([each[side] for each in own], np.uint64) for side in (0, 1))
    words = np.concatenate([np.frombuffer(each, np.uint64, len(each) // _WORD_BYTES) for each in contents])
    words = words[(words % _WORD_BYTES == 0) & (words >= starts[0])] if own else words[:0]
    at = np.searchsorted(starts, words, "right") - 1
    return np.unique(words[words < ends[at]])[:_WORD_LIMIT]


def _denied(pid: int) -> _Copied:
    """Return what keeps this process from stopping the other."""
    with open(f"/proc/{pid}/status", "rb") as file:
        fields = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
    tracer = int(fields.get(b"TracerPid", b"0"))
    if tracer:
        return _Copied(f"process {tracer} traces it already", "end that debugger, or use gcore there")
    if fields.get(b"State", b"").strip().startswith((b"Z", b"X")):
        return _Copied("has ended")
    hint = (
        "run as its owner or as root; its owner may where kernel.yama.ptrace_scope is 0; in a container: CAP_SYS_PTRACE"
    )
    return _Copied("may not be stopped: permission denied", hint)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read()).strip()
    except OSError:
        return ""
