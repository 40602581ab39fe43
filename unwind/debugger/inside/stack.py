"""A stack as a debugger has unwound it, on its way to the helper and back; the same for gdb and lldb.

A `Machine` is a frame of machine code with everything that the debugger shows of it: functions inlined in it, and
frames that the debugger has made up for tail calls. Its `items` are the debugger's own objects.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, NamedTuple, Optional, Protocol, Sequence, Set, Tuple

from unwind.debugger.inside.client import Helper, NoAnswer, Read
from unwind.debugger.inside.shown import is_open

_KEPT_STACKS = 1 << 10
_CALLERS = 8  # a frame's arguments may be known only by what its callers had, and theirs by what their callers had
_LONGEST_S = 2.0  # to read the registers of a stack

Answer = Dict[str, Any]


class Module(NamedTuple):
    """An image: its build id in hexadecimal, what was added to its addresses as linked, whether it has tables."""

    path: str
    build_id: str
    bias: int
    has_tables: bool


class Machine:
    """A frame of machine code.

    Attributes:
        pc: program counter, or return address as it lies on the stack.
        is_exact: whether it is a program counter: of the innermost frame, or one that a signal interrupted.
        is_cut: whether the debugger has called the frame inwards of it, so it says nothing about that one.
        items: what the debugger shows, innermost first, the machine frame itself last.
        made_up: the debugger's own frames for tail calls, between this frame and its caller.
    """

    __slots__ = ("is_cut", "is_exact", "items", "made_up", "pc")

    def __init__(self, pc: int, is_exact: bool, is_cut: bool, items: List[Any]) -> None:
        self.pc, self.is_exact, self.is_cut, self.items = pc, is_exact, is_cut, items
        self.made_up: List[Any] = []


class Process(Protocol):
    """What a debugger knows of a process that it has stopped."""

    def registers(self, machine: Machine) -> Dict[int, int]:
        """Return the registers of a frame that are known, by DWARF number."""

    def read(self, address: int, size_bytes: int) -> Optional[bytes]:
        """Return memory; None if it cannot be read."""


class Resolver:
    """Asks the helper about stacks, and remembers what it answered."""

    def __init__(self, helper: Helper) -> None:
        self.helper = helper
        self.warnings: List[str] = []  # those that were not shown yet
        self._known: Dict[object, List[Answer]] = {}
        self._reported: Set[str] = set()

    def resolve(
        self,
        machines: Sequence[Machine],
        modules: Tuple[Module, ...],
        debug_roots: Sequence[str],
        process: Process,
        timeout_s: float,
        explain: bool = False,
    ) -> Optional[List[Answer]]:
        """Return an answer for each frame of a stack; None for a process without tables, of which nothing is asked.

        Args:
            machines: its frames, innermost first.
            modules: the images of the process.
            debug_roots: directories with debug information.
            process: reads registers and memory. It is asked only if there are frames that have more than one name
                without their objects: what it reads may take the debugger long.
            timeout_s: how long to wait for the helper.
            explain: whether answers have a list of facts, `explain`.

        Raises:
            NoAnswer: the helper failed, or has not answered in time.
        """
        if not any(each.has_tables for each in modules):
            return None
        question: Dict[str, Any] = {
            "modules": [{"path": each.path, "build_id": each.build_id, "bias": each.bias} for each in modules],
            "debug_roots": list(debug_roots),
            "stacks": [_part(machines, start, end) for start, end in _parts(machines)],
            "explain": explain,
        }
        key = tuple([(each.pc, each.is_exact, each.is_cut) for each in machines]), modules, explain
        if key not in self._known:
            if len(self._known) >= _KEPT_STACKS:
                self._known.clear()
            self._known[key] = self._ask(question, len(machines), timeout_s, _no_memory)
        answers = self._known[key]
        is_open_at = [idx for idx, answer in enumerate(answers) if is_open(answer)]
        if not is_open_at:
            return answers
        registers = _registers(machines, is_open_at, process)
        for part, (start, end) in zip(question["stacks"], _parts(machines)):
            part["registers"] = [[idx - start, values] for idx, values in registers.items() if start <= idx < end]
        return self._ask(question, len(machines), timeout_s, process.read)

    def is_new(self, warning: str) -> bool:
        """Return whether a warning was not shown yet: each is shown once."""
        is_new = warning not in self._reported
        self._reported.add(warning)
        return is_new

    def _ask(self, question: Dict[str, Any], frame_count: int, timeout_s: float, read: Read) -> List[Answer]:
        reply = self.helper.ask(question, timeout_s, read)
        self.warnings += [str(each) for each in reply.get("warnings") or ()]
        answers = [frame for stack in reply.get("stacks") or () for frame in stack["frames"]]
        if len(answers) != frame_count:
            raise NoAnswer("the helper answered {} frames of {}".format(len(answers), frame_count))
        return answers


def _registers(machines: Sequence[Machine], is_open_at: Sequence[int], process: Process) -> Dict[int, Dict[int, int]]:
    """Return the registers of open frames and of their callers, by index; of the innermost ones if there are many.

    To recover a register that no function has saved, a debugger goes through all frames further in: in a recursion of
    thousands of open frames that would take minutes.
    """
    deadline = time.monotonic() + _LONGEST_S
    found: Dict[int, Dict[int, int]] = {}
    for open_idx in is_open_at:
        for idx in range(open_idx, min(open_idx + _CALLERS, len(machines))):
            if idx not in found:
                if time.monotonic() > deadline:
                    return found
                found[idx] = process.registers(machines[idx])
    return found


def _no_memory(address: int, size_bytes: int) -> None:
    """Return nothing: no registers were sent, so nothing is read."""


def _parts(machines: Sequence[Machine]) -> List[Tuple[int, int]]:
    """Return the stacks that are resolved by themselves: a debugger may call functions in the middle of any other."""
    starts = [idx for idx, each in enumerate(machines) if idx == 0 or each.is_cut]
    return [(start, end) for start, end in zip(starts, [*starts[1:], len(machines)])]


def _part(machines: Sequence[Machine], start: int, end: int) -> Dict[str, Any]:
    part = machines[start:end]
    return {
        "frames": [each.pc for each in part],
        "exact": [idx for idx, each in enumerate(part) if each.is_exact],
        "is_called": not part[0].is_exact,
    }
