"""Frames of gdb: collected for the helper, and shown with other names."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import gdb
from gdb.FrameDecorator import FrameDecorator

from unwind.debugger.inside.registers import wanted
from unwind.debugger.inside.shown import Change, Function, carried, text_of
from unwind.debugger.inside.stack import Machine

_REGISTER_MASK = (1 << 64) - 1


def collect(items: Iterable[Any]) -> Tuple[List[Machine], List[Any]]:
    """Return the machine frames of a stack of frame decorators, and what is left of a stack that ends inside of one."""
    machines: List[Machine] = []
    pending: List[Any] = []
    is_exact = is_cut = False  # of the next one
    for item in items:
        frame = item.inferior_frame()
        kind = frame.type()
        if kind == gdb.TAILCALL_FRAME and machines and not pending:
            machines[-1].made_up.append(item)
            continue
        pending.append(item)
        if kind in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            continue
        is_dummy = kind == gdb.DUMMY_FRAME  # gdb has called the function inwards of it, at the frame outwards of it
        is_innermost = not machines and _is_newest(frame)
        machines.append(Machine(frame.pc(), is_exact or is_innermost, is_cut or is_dummy, pending))
        pending = []
        is_cut, is_exact = is_dummy, is_dummy or kind == gdb.SIGTRAMP_FRAME
    return machines, pending


def _is_newest(frame: Any) -> bool:
    """Return whether a frame is the innermost of its stack, or only functions inlined in it are further in."""
    newer = frame.newer()
    while newer is not None and newer.type() == gdb.INLINE_FRAME:
        newer = newer.newer()
    return newer is None


class Process:
    """The process that gdb has stopped (`unwind.debugger.inside.stack.Process`)."""

    def registers(self, machine: Machine) -> Dict[int, int]:
        """Return the registers of a frame that are known, by DWARF number."""
        frame = machine.items[-1].inferior_frame()
        found = {}
        for number, name in wanted("aarch64" in frame.architecture().name(), machine.is_exact):
            try:
                value = frame.read_register(name)
                if not value.is_optimized_out:
                    found[number] = int(value) & _REGISTER_MASK
            except (gdb.error, ValueError):
                continue
        return found

    def read(self, address: int, size_bytes: int) -> Optional[bytes]:
        """Return memory; None if it cannot be read."""
        try:
            return bytes(gdb.selected_inferior().read_memory(address, size_bytes))
        except (gdb.error, OverflowError):
            return None


def _block_of(frame: Any) -> Any:
    """Return the outermost block of the function that has the code of a frame, not of one that is inlined there."""
    try:
        block = frame.block()
    except RuntimeError:  # no debug information
        return None
    found = None
    while block is not None and not block.is_static and not block.is_global:
        if block.function is not None:
            found = block
        block = block.superblock
    return found


def _linkage_name(frame: Any) -> str:
    """Return the linkage name of the function that gdb shows for a frame."""
    if frame.type() == gdb.INLINE_FRAME:
        function = frame.function()
    else:
        block = _block_of(frame)
        function = frame.function() if block is None else block.function
    return "" if function is None else function.linkage_name


def shown(machine: Machine, change: Optional[Change]) -> Iterator[Any]:
    """Yield the frame decorators to show for a machine frame."""
    if change is None:
        yield from machine.items
        yield from machine.made_up
        return
    items = machine.items
    if change.functions:
        items = [Renamed(*pair) for pair in carried(change.functions, items, machine.is_exact)]
    if len(machine.made_up) == len(change.left_out):
        yield from items
        yield from [Renamed(item, function) for item, function in zip(machine.made_up, change.left_out)]
    else:
        yield from items[:-1]
        yield WithLeftOut(items[-1], [LeftOut(items[-1], function) for function in change.left_out])


class Renamed(FrameDecorator):  # type: ignore[misc]
    """A frame that shows another function; arguments and variables are left out unless gdb's function is that one."""

    def __init__(self, base: Any, function: Function) -> None:
        super().__init__(base)
        self._function = function
        self._is_same = _linkage_name(base.inferior_frame()) in function.linkage_names

    def function(self) -> str:
        """Return the name, and why it is this one."""
        return text_of(self._function)

    def filename(self) -> Optional[str]:
        """Return the file of the shown function."""
        return self._function.file

    def line(self) -> Optional[int]:
        """Return the line in the shown function."""
        return self._function.line

    def frame_args(self) -> Any:
        """Return the arguments."""
        return super().frame_args() if self._is_same else None

    def frame_locals(self) -> Any:
        """Return the variables."""
        return super().frame_locals() if self._is_same else None


class LeftOut(Renamed):
    """A frame that a tail call has left out, shown below the one that its function has called."""

    def address(self) -> Optional[int]:
        """Return the address of the jump, if it is only one."""
        return self._function.address

    def frame_args(self) -> None:
        """Return nothing: the frame is gone."""

    def frame_locals(self) -> None:
        """Return nothing: the frame is gone."""

    def elided(self) -> None:
        """Return nothing: the frame of the function that was called has them."""


class WithLeftOut(FrameDecorator):  # type: ignore[misc]
    """A frame with those that tail calls have left out between it and its caller."""

    def __init__(self, base: Any, left_out: List[LeftOut]) -> None:
        super().__init__(base)
        self._left_out = left_out

    def elided(self) -> Any:
        """Return those frames, and those that others have hidden."""
        return [*(super().elided() or ()), *self._left_out] or None
