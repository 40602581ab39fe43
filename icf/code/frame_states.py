"""Where in an x86-64 function its frame pointer is set up, on all ways that lead there.

    push %rbp ; mov %rsp,%rbp      from here on
    pop %rbp, leave                up to here; gcc moves other instructions between it and the end

The states of each instruction are followed along the jumps of the function. Cases of a switch and landing pads of
exceptions, to which none of them leads, have a frame if each call has one, and each indirect jump has or had one.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from icf.code import operations as op
from icf.code.rows import decode_function

_PUSH, _SET = 0x55, (b"\x48\x89\xe5", b"\x48\x8b\xec")  # push %rbp; mov %rsp,%rbp
_SP, _BP = 4, 5
_BEFORE, _PUSHED, _FRAME, _AFTER = 1, 2, 4, 8  # bits: several ways may lead to an instruction
_STATES = (_BEFORE, _PUSHED, _FRAME, _AFTER)


class FrameStates(NamedTuple):
    """The frame in one function.

    Attributes:
        places: offsets of the instructions that matter, ascending.
        has_frame: for each, whether the frame is set up before it.
        calls_have_frame: whether it is wherever the function calls.
    """

    places: list[int]
    has_frame: list[bool]
    calls_have_frame: bool

    def at(self, offset: int) -> bool:
        """Return whether the frame is set up before the instruction at an offset."""
        idx = bisect_left(self.places, offset)
        return idx < len(self.places) and self.has_frame[idx]


class _Insn:
    """An instruction: what it writes, and where it leads."""

    def __init__(self, at: int, opening: bytes) -> None:
        self.at = at
        self.is_push, self.is_set = opening[:1] == bytes([_PUSH]), opening in _SET
        self.writes_sp = self.writes_bp = self.calls = self.jumps_anywhere = self.ends = False
        self.target = -1

    def add(self, kind: int, register: int, value: int) -> None:
        """Take one of its operations."""
        if kind == op.KILL:
            self.writes_sp |= bool(register >> _SP & 1)
            self.writes_bp |= bool(register >> _BP & 1)
        elif kind in (op.COPY, op.ADD, op.SUM, op.CONST, op.LOAD, op.INDEXED, op.SCALED_SUM):
            self.writes_sp |= register == _SP
            self.writes_bp |= register == _BP
        self.writes_bp |= kind == op.FORGET
        self.calls |= kind in (op.CALL, op.CALL_VALUE)
        self.jumps_anywhere |= kind == op.JUMP_VALUE
        self.ends |= kind in (op.JUMP, op.JUMP_VALUE, op.STOP)
        if kind in (op.JUMP, op.BRANCH):
            self.target = value

    def after(self, states: int) -> int:
        """Return the states after it."""
        found = 0
        for state in _STATES:
            if state & states:
                found |= self._after(state)
        return found

    def _after(self, state: int) -> int:
        if state == _PUSHED:
            return _FRAME if self.is_set else _BEFORE if self.writes_bp or self.writes_sp else _PUSHED
        if state == _FRAME:
            return _AFTER if self.writes_bp else _FRAME
        return _PUSHED if self.is_push else state


def frame_states(code: memoryview) -> FrameStates:
    """Return where the function with these bytes has its frame; nowhere if it cannot be decoded."""
    insns: list[_Insn] = []
    raw = bytes(code)
    if not any(each in raw for each in _SET):  # the usual case, and fast: nothing needs to be decoded
        return FrameStates([], [], False)
    for kind, register, _, _, value, at in decode_function(code).tolist():
        if kind == op.BAD:
            return FrameStates([], [], False)
        if not insns or insns[-1].at != at:
            insns.append(_Insn(at, raw[at : at + 3]))
        insns[-1].add(kind, register, value)
    places, states = [insn.at for insn in insns], [0] * len(insns)
    todo = [(0, _BEFORE)] if insns else []
    while todo:
        _follow(insns, places, states, *todo.pop())
        if 0 in states:
            each_has = all(
                not state & ~(_FRAME | _AFTER * insn.jumps_anywhere)
                for insn, state in zip(insns, states, strict=True)
                if insn.calls or insn.jumps_anywhere
            )
            todo.append((states.index(0), _FRAME if each_has else _BEFORE | _FRAME))
    calls = [state == _FRAME for insn, state in zip(insns, states, strict=True) if insn.calls]
    return FrameStates(places, [state == _FRAME for state in states], all(calls))


def _follow(insns: list[_Insn], places: list[int], states: list[int], idx: int, state: int) -> None:
    """Add states to an instruction, and to all that it leads to."""
    todo = [(idx, state)]
    while todo:
        idx, state = todo.pop()
        while idx < len(insns) and state & ~states[idx]:
            states[idx] |= state
            insn = insns[idx]
            state = insn.after(states[idx])
            if insn.target >= 0:
                todo.append((bisect_left(places, insn.target), state))
            if insn.ends:
                break
            idx += 1
