"""lldb: the command `icf bt`, which shows stacks as `bt` does, with merged functions named.

lldb 19 has no way to change what its own `bt` shows.
"""

from __future__ import annotations

import os
import shlex
from typing import Any, Dict, Iterator, List, Optional

import lldb

from unwind.debugger.inside.client import Helper, NoAnswer
from unwind.debugger.inside.find import default_command
from unwind.debugger.inside.registers import wanted
from unwind.debugger.inside.sections import BUILD_ID, NOTE_LIMIT, build_id_of, has_tables
from unwind.debugger.inside.shown import Change, Function, carried, change_of, text_of
from unwind.debugger.inside.stack import Machine, Module, Resolver

_TIMEOUT_S = 10.0
_FRAME_LIMIT = 1 << 14  # of a stack
_TRAMPOLINES = ("__restore_rt", "__kernel_rt_sigreturn")  # what signal handlers return to

_resolver = Resolver(Helper(shlex.split(default_command())))


def set_command(command: str) -> None:
    """Set how `icf` is run."""
    global _resolver
    _resolver.helper.stop()
    _resolver = Resolver(Helper(shlex.split(command)))


def bt(debugger: Any, command: str, context: Any, result: Any, _: Any) -> None:
    """Run `icf bt [all]`."""
    del debugger
    process = context.process
    if not process.IsValid() or not context.thread.IsValid():
        result.SetError("no process, or no thread is selected")
        return
    threads = list(process) if command.strip() == "all" else [context.thread]
    target = context.target
    modules = tuple([each for module in target.module_iter() for each in _module(module, target, process)])
    for thread in threads:
        for line in _backtrace(thread, target, modules, result):
            result.AppendMessage(line)


def _backtrace(thread: Any, target: Any, modules: Any, result: Any) -> Iterator[str]:
    """Yield the lines of a stack."""
    frames = [thread.GetFrameAtIndex(idx) for idx in range(min(thread.GetNumFrames(), _FRAME_LIMIT))]
    machines = _collect(frames)
    changes: List[Optional[Change]] = [None] * len(machines)
    try:
        answers = _resolver.resolve(machines, modules, (), _Process(target), _TIMEOUT_S)
        changes = [change_of(answer) for answer in answers] if answers is not None else changes
    except Exception as error:  # whatever it is: lldb's own names are better than none
        kind = "" if isinstance(error, NoAnswer) else "{}: ".format(type(error).__name__)
        _warn("{}{}: names are lldb's own".format(kind, error), result)
    while _resolver.warnings:
        _warn(_resolver.warnings.pop(0), result)
    is_selected = thread.GetProcess().GetSelectedThread().GetThreadID() == thread.GetThreadID()
    yield "{} thread #{}{}".format("*" if is_selected else " ", thread.GetIndexID(), _stopped(thread))
    selected = thread.GetSelectedFrame().GetFrameID() if is_selected else -1
    for machine, change in zip(machines, changes):
        functions = change.functions if change is not None else ()
        if functions:
            for frame, function in carried(functions, machine.items, machine.is_exact):
                yield _line(frame, frame.GetFrameID() == selected, _described(frame, function))
        else:
            for frame in machine.items:
                yield _line(frame, frame.GetFrameID() == selected, str(frame).partition(": ")[2].rstrip())
        if change is None:
            yield from [_line(frame, False, str(frame).partition(": ")[2].rstrip()) for frame in machine.made_up]
        else:
            yield from ["              {}".format(_place(each)) for each in change.left_out]


def _stopped(thread: Any) -> str:
    reason = thread.GetStopDescription(256)
    return ", stop reason = {}".format(reason) if reason else ""


def _line(frame: Any, is_selected: bool, text: str) -> str:
    return "  {} frame #{}: {}".format("*" if is_selected else " ", frame.GetFrameID(), text)


def _described(frame: Any, function: Function) -> str:
    module = os.path.basename(frame.GetModule().GetFileSpec().fullpath or "")
    return "0x{:016x} {}`{}".format(frame.GetPC(), module, _place(function))


def _place(function: Function) -> str:
    where = " at {}:{}".format(os.path.basename(function.file), function.line) if function.file else ""
    return text_of(function) + where


def _collect(frames: List[Any]) -> List[Machine]:
    machines: List[Machine] = []
    pending: List[Any] = []
    is_exact = True
    for frame in frames:
        if frame.IsArtificial() and machines:  # made up for a tail call
            machines[-1].made_up.append(frame)
            continue
        pending.append(frame)
        if not frame.IsInlined():
            # of a frame that has others inlined, lldb says where these are called
            machines.append(Machine(pending[0].GetPC(), is_exact, False, pending))
            pending = []
            is_exact = frame.GetFunctionName() in _TRAMPOLINES  # a signal has interrupted the next one
    return machines


class _Process:
    """The process that lldb has stopped (`unwind.debugger.inside.stack.Process`)."""

    def __init__(self, target: Any) -> None:
        self._process = target.GetProcess()
        self._is_aarch64 = target.GetTriple().startswith(("aarch64", "arm64"))

    def registers(self, machine: Machine) -> Dict[int, int]:
        """Return the registers of a frame that are known, by DWARF number."""
        found = {}
        for number, name in wanted(self._is_aarch64, machine.is_exact):
            error = lldb.SBError()
            value = machine.items[-1].FindRegister(name).GetValueAsUnsigned(error, 0)
            if error.Success():
                found[number] = value
        return found

    def read(self, address: int, size_bytes: int) -> Optional[bytes]:
        """Return memory; None if it cannot be read."""
        error = lldb.SBError()
        content = self._process.ReadMemory(address, size_bytes, error)
        return bytes(content) if error.Success() and content else None


def _module(module: Any, target: Any, process: Any) -> Iterator[Module]:
    """Yield an image that lies in memory."""
    path = module.GetFileSpec().fullpath or ""
    text = module.FindSection(".text")
    load_address = text.GetLoadAddress(target) if text.IsValid() else lldb.LLDB_INVALID_ADDRESS
    if load_address == lldb.LLDB_INVALID_ADDRESS or not os.path.isabs(path):
        return
    note = module.FindSection(BUILD_ID)
    build_id = (module.GetUUIDString() or "").replace("-", "").lower()
    if note.IsValid() and note.GetByteSize() <= NOTE_LIMIT:
        error = lldb.SBError()
        content = process.ReadMemory(note.GetLoadAddress(target), note.GetByteSize(), error)
        build_id = build_id_of(bytes(content)) if error.Success() and content else build_id
    debug_file = module.GetSymbolFileSpec().fullpath or path
    bias = load_address - text.GetFileAddress()
    yield Module(path, build_id, bias, has_tables(path) or has_tables(debug_file))


def _warn(text: str, result: Any) -> None:
    if _resolver.is_new(text):
        result.AppendWarning("icf: {}".format(" ".join(text.split())))
