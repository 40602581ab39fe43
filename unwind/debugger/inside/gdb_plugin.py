"""gdb: a frame filter that names merged functions in `bt`, in MI's -stack-list-frames and wherever gdb lists frames.

gdb unwinds; what it has found is asked of the helper once for each stack, and shown through frame decorators. What gdb
shows of a single frame (`frame`, `up`, where it stopped) passes through no frame filter: `icf explain` and
`$_icf_function()` are for those.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterable, Iterator, List, Optional, Tuple

import gdb
from gdb.FrameDecorator import FrameDecorator
from gdb.FrameIterator import FrameIterator

from unwind.debugger.inside import gdb_frames
from unwind.debugger.inside.client import NoAnswer
from unwind.debugger.inside.gdb_modules import Modules
from unwind.debugger.inside.gdb_settings import Settings
from unwind.debugger.inside.shown import change_of
from unwind.debugger.inside.stack import Answer, Machine, Resolver

_TOGETHER = 1 << 14  # frames: those of an endless recursion are not all unwound before the first is shown


class Plugin:
    """What is kept from one stop to the next."""

    def __init__(self) -> None:
        self.settings = Settings()
        self._modules = Modules()
        self._resolver = Resolver(self.settings.helper)

    def resolve(self, machines: List[Machine], explain: bool = False) -> Optional[List[Answer]]:
        """Return the answers for the frames of a stack; None for a process without tables, of which nothing is asked.

        Raises NoAnswer if the helper has none.
        """
        if self._resolver.helper is not self.settings.helper:
            self._resolver = Resolver(self.settings.helper)
        modules, roots = self._modules.listed(), _debug_roots()
        process, timeout_s = gdb_frames.Process(), self.settings.timeout_s
        return self._resolver.resolve(machines, modules, roots, process, timeout_s, explain)

    def filter(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield frame decorators, with others in place of those that show what the linker kept."""
        left = iter(items)
        together = list(islice(left, _TOGETHER))
        while together:
            yield from self._renamed(together)
            together = list(islice(left, _TOGETHER))

    def _renamed(self, items: List[Any]) -> List[Any]:
        found = items
        try:
            machines, rest = gdb_frames.collect(items)
            answers = self.resolve(machines)
            if answers is not None:
                changes = [change_of(answer, self.settings.remarks) for answer in answers]
                shown = [gdb_frames.shown(machine, change) for machine, change in zip(machines, changes)]
                found = [item for each in shown for item in each] + rest
        except Exception as error:  # whatever it is: gdb's own names are better than none
            self._warn("{}: names are gdb's own".format(error or type(error).__name__))
        while self._resolver.warnings:
            self._warn(self._resolver.warnings.pop(0))
        return found

    def _warn(self, text: str) -> None:
        if self._resolver.is_new(text):
            gdb.write("warning: icf: {}\n".format(" ".join(text.split())), gdb.STDERR)


def _debug_roots() -> List[str]:
    folders = (gdb.parameter("debug-file-directory") or "").split(":")
    return [each for each in folders if each and each != "/usr/lib/debug"]


class _Filter:
    """The frame filter."""

    name, enabled, priority = "icf", True, 1000  # above others: they see the names

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def filter(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the frames to show."""
        return self._plugin.filter(items)


def _selected(plugin: Plugin, explain: bool = False, level: Optional[int] = None) -> Tuple[Any, Optional[Answer]]:
    """Return the selected frame, or one by its number, with its answer; None if there is nothing to ask."""
    frame = gdb.selected_frame()
    if level is not None:
        frame = gdb.newest_frame()
        while frame is not None and level:
            frame, level = frame.older(), level - 1
        if frame is None:
            raise gdb.GdbError("No frame at that level.")
    items = map(FrameDecorator, FrameIterator(gdb.newest_frame()))
    machines, _ = gdb_frames.collect(islice(items, _TOGETHER))
    answers = plugin.resolve(machines, explain) or []
    for machine, answer in zip(machines, answers):
        if any(frame == item.inferior_frame() for item in (*machine.items, *machine.made_up)):
            return frame, answer
    return frame, None


class _Icf(gdb.Command):  # type: ignore[misc]
    """Names of functions that the linker has merged."""

    def __init__(self) -> None:
        super().__init__("icf", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class _Explain(gdb.Command):  # type: ignore[misc]
    """Explain which function a frame is, and why: the records and rules that apply, the candidates that they exclude.

    icf explain [FRAME]

    Without a number it is about the selected frame."""

    def __init__(self, plugin: Plugin) -> None:
        super().__init__("icf explain", gdb.COMMAND_STACK)
        self._plugin = plugin

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Print the facts."""
        del from_tty
        try:
            level = int(gdb.parse_and_eval(argument)) if argument.strip() else None
            frame, answer = _selected(self._plugin, True, level)
        except NoAnswer as error:
            raise gdb.GdbError("icf: {}".format(error)) from None
        if answer is None:
            raise gdb.GdbError("icf: no image of this process has call-site tables ('icf pass' writes them)")
        names = [answer["name"]] if answer.get("name") else answer.get("candidate_names") or [str(frame.name())]
        gdb.write("{} [{}]\n".format(" | ".join(names), answer.get("verdict")))
        for fact in answer.get("explain") or [answer.get("reason_text")]:
            gdb.write("  - {}\n".format(fact) if fact else "")


class _Function(gdb.Function):  # type: ignore[misc]
    """Return the name of the selected frame's function as a string: $_icf_function()

    The condition of a breakpoint in merged functions can be $_streq($_icf_function(), "List<Order>::add(Order*)")."""

    def __init__(self, plugin: Plugin) -> None:
        super().__init__("_icf_function")
        self._plugin = plugin

    def invoke(self) -> str:
        """Return the name; several ones that are possible are joined by ` | `."""
        try:
            frame, answer = _selected(self._plugin)
        except NoAnswer as error:
            raise gdb.GdbError("icf: {}".format(error)) from None
        change = None if answer is None else change_of(answer, False)
        return change.functions[-1].name if change is not None and change.functions else frame.name() or ""


_installed: Optional[Plugin] = None


def install() -> None:
    """Register filter, commands and parameters; a second time changes nothing."""
    global _installed
    if _installed is None:
        _installed = Plugin()
        gdb.frame_filters["icf"] = _Filter(_installed)
        _Icf()
        _Explain(_installed)
        _Function(_installed)
