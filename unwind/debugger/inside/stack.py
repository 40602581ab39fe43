"""A stack as a debugger has unwound it, on its way to the helper and back; the same for gdb and lldb.

A `Machine` is a frame of machine code with everything that the debugger shows of it: functions inlined in it, and
frames that the debugger has made up for tail calls. Its `items` are the debugger's own objects.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from unwind.debugger.inside.client import Helper, NoAnswer
from unwind.debugger.inside.shown import is_open

_KEPT_STACKS = 1 << 10

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
        read_vptr: Callable[[Machine], Optional[int]],
        timeout_s: float,
        explain: bool = False,
    ) -> Optional[List[Answer]]:
        """Return an answer for each frame of a stack; None for a process without tables, of which nothing is asked.

        Args:
            machines: its frames, innermost first.
            modules: the images of the process.
            debug_roots: directories with debug information.
            read_vptr: returns the vtable pointer that the object of a frame has now, or None. Only called for frames
                that have more than one name without it: what it reads may take the debugger long.
            timeout_s: how long to wait for the helper.
            explain: whether answers have a list of facts, `explain`.

        Raises:
            NoAnswer: the helper failed, or has not answered in time.
        """
        if not any(each.has_tables for each in modules):
            return None
        answers = self._ask(machines, modules, debug_roots, {}, timeout_s, explain)
        open_frames = [idx for idx, answer in enumerate(answers) if is_open(answer)]
        vptrs = {idx: vptr for idx in open_frames for vptr in [read_vptr(machines[idx])] if vptr}
        return self._ask(machines, modules, debug_roots, vptrs, timeout_s, explain) if vptrs else answers

    def is_new(self, warning: str) -> bool:
        """Return whether a warning was not shown yet: each is shown once."""
        is_new = warning not in self._reported
        self._reported.add(warning)
        return is_new

    def _ask(
        self,
        machines: Sequence[Machine],
        modules: Tuple[Module, ...],
        debug_roots: Sequence[str],
        vptrs: Dict[int, int],
        timeout_s: float,
        explain: bool,
    ) -> List[Answer]:
        frames = tuple([(each.pc, each.is_exact, each.is_cut) for each in machines])
        key = frames, modules, tuple(sorted(vptrs.items())), explain
        if key not in self._known:
            reply = self.helper.ask(
                {
                    "modules": [{"path": each.path, "build_id": each.build_id, "bias": each.bias} for each in modules],
                    "debug_roots": list(debug_roots),
                    "stacks": [_part(machines, start, end, vptrs) for start, end in _parts(machines)],
                    "explain": explain,
                },
                timeout_s,
            )
            self.warnings += [str(each) for each in reply.get("warnings") or ()]
            stacks = reply.get("stacks")
            answers = [frame for stack in stacks or () for frame in stack["frames"]]
            if len(answers) != len(machines):
                raise NoAnswer("the helper answered {} frames of {}".format(len(answers), len(machines)))
            if len(self._known) >= _KEPT_STACKS:
                self._known.clear()
            self._known[key] = answers
        return self._known[key]


def _parts(machines: Sequence[Machine]) -> List[Tuple[int, int]]:
    """Return the stacks that are resolved by themselves: a debugger may call functions in the middle of any other."""
    starts = [idx for idx, each in enumerate(machines) if idx == 0 or each.is_cut]
    return [(start, end) for start, end in zip(starts, [*starts[1:], len(machines)])]


def _part(machines: Sequence[Machine], start: int, end: int, vptrs: Dict[int, int]) -> Dict[str, Any]:
    part = machines[start:end]
    return {
        "frames": [each.pc for each in part],
        "exact": [idx for idx, each in enumerate(part) if each.is_exact],
        "vptrs": [[idx - start, vptr] for idx, vptr in sorted(vptrs.items()) if start <= idx < end],
        "is_called": not part[0].is_exact,
    }
