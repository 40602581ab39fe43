"""Unwinds the threads of a dump.

The walk needs memory in one piece. Of a stack a window above the stack pointer is taken; where the walk comes to its
end, or goes on to another stack (that of a signal handler, of a fibre), it begins again with more. A dump may have
gigabytes of memory, of which a stack is a small part.

Where a stack has overflowed, the stack pointer lies below the memory that it may use: then the window begins with that
memory.

A program counter that lies in no code was called through a bad pointer: its caller is found as at the first instruction
of a function.

    stack pointer                                      CFA of a frame
    |---- 16 KiB ----|                                 |
    |--------------- 128 KiB ------------------------------------|
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from icf.code.calls import CallKind, call_ending_at
from icf.dwarf.cfi.frames import Row
from icf.elf.types import Machine
from unwind.dumps.dump import PC, SP, DumpedThread, ProcessDump
from unwind.dumps.loaded import Images
from unwind.walk.frame import WalkedFrame
from unwind.walk.plt import entry_row
from unwind.walk.walker import End, Steps, Walker
from unwind.walk.windows import WindowsSteps

FRAME_LIMIT = 1 << 18  # 8 MiB, which most stacks may have, in frames of 32 bytes
_FIRST_BYTES = 1 << 14
_GROWTH = 8
_LIMIT_BYTES = 1 << 28  # of memory that one walk takes
_ROUND_LIMIT = 64
_LOWEST_CODE = 1 << 12  # a function pointer that is null leads below; not every minidump says where code is
_SIGNAL_BYTES = 1 << 13  # the kernel's frame of a signal, with what it needs of the registers
_RED_ZONE_BYTES = {Machine.X86_64: 128, Machine.AARCH64: 0}


class WalkedThread(NamedTuple):
    """A thread with its frames, innermost first: at least one."""

    thread: DumpedThread
    frames: list[WalkedFrame]
    end: End
    problem: str = ""  # why the image of the last frame was not found, if the stack ends for that


class DumpWalker:
    """Unwinds threads; what was found for one is kept for the others."""

    def __init__(self, dump: ProcessDump, images: Images) -> None:
        self._dump, self._images = dump, images
        self._steps = Steps(dump.machine)
        self._row_at = partial(_row_at, images)  # not a method: a circle would keep the walker's memory
        self._walker = Walker(self._steps, self._row_at, FRAME_LIMIT)
        self._red_zone_bytes = _RED_ZONE_BYTES[dump.machine]

    def walk(self, thread: DumpedThread) -> WalkedThread:
        """Return the frames of a thread."""
        pc = thread.registers[PC[self._dump.machine]]
        if not self._is_bad(pc):
            return self._walk(thread, self._walker)
        entry, row_at = entry_row(self._dump.machine), self._row_at
        walked = self._walk(thread, Walker(self._steps, lambda at: entry if at == pc else row_at(at), FRAME_LIMIT))
        if len(walked.frames) > 1:
            return_address = walked.frames[1].pc - 1
            if self._images.at(return_address) is not None or self._images.problem_at(return_address):
                return walked
        return WalkedThread(thread, walked.frames[:1], End.NO_CALL_FRAMES)

    def _is_bad(self, pc: int) -> bool:
        """Return whether there is no code at a program counter."""
        code = self._dump.code
        return pc < _LOWEST_CODE or bool(code) and not any(start <= pc < end for start, end in code)

    def _walk(self, thread: DumpedThread, walker: Walker) -> WalkedThread:
        windows: dict[int, tuple[int, int]] = {}  # by start of the extent
        self._extend(windows, thread.registers[SP[self._dump.machine]], 1)
        for _ in range(_ROUND_LIMIT):
            walk = walker.walk(thread.registers, *self._memory(windows))
            frames = self._believed(walk.frames)
            if not any(self._lacks(frame, windows) for frame in frames):
                break
        last = frames[-1].pc - frames[-1].is_call
        end = walk.end if len(frames) == len(walk.frames) else End.NO_CALL_FRAMES
        return WalkedThread(thread, frames, end, self._images.problem_at(last))

    def _believed(self, frames: list[WalkedFrame]) -> list[WalkedFrame]:
        """Return the frames as far as those of Windows can be: a return address follows a call, and not in a leaf.

        Code without unwind information is taken for a leaf, but may have moved the stack pointer all the same.
        """
        for idx, frame in enumerate(frames):
            found = self._images.at(frame.pc - 1) if frame.is_call else None
            if found is None or found.image.format == "ELF" or not isinstance(found.steps, WindowsSteps):
                continue
            if call_ending_at(found.image, frame.pc - found.bias).kind is CallKind.NONE:
                return frames[:idx]
            if found.steps.is_leaf(frame.pc - 1 - found.bias):
                return frames[: idx + 1]
        return frames

    def _lacks(self, frame: WalkedFrame, windows: dict[int, tuple[int, int]]) -> bool:
        """Return whether a frame lies outside of what the walk was given; the windows then have more."""
        sp = frame.registers[SP[self._dump.machine]]
        if sp is None:
            return False
        is_cfa_known = frame.cfa > sp and not frame.is_signal
        return self._extend(windows, sp, frame.cfa - sp if is_cfa_known else _SIGNAL_BYTES)

    def _extend(self, windows: dict[int, tuple[int, int]], sp: int, size_bytes: int) -> bool:
        """Add to the windows what was copied of a frame; return whether they did not have it."""
        extent = self._dump.memory.extent(sp) or self._dump.memory.extent(sp + size_bytes - 1)
        if extent is None:
            return False
        low, high = max(sp - self._red_zone_bytes, extent[0]), min(sp + size_bytes, extent[1])
        start, end = windows.get(extent[0], (low, low))
        if start <= low and high <= end:
            return False
        start, grown = min(start, low), max(_FIRST_BYTES, _GROWTH * (end - start), high - low)
        room = _LIMIT_BYTES - sum(stop - begin for begin, stop in windows.values()) + end - start
        end = min(max(end, start + min(grown, room)), extent[1])
        has_grown = windows.get(extent[0]) != (start, end)
        windows[extent[0]] = start, end
        return has_grown

    def _memory(self, windows: dict[int, tuple[int, int]]) -> tuple[memoryview, list[tuple[int, int, int]]]:
        """Return the bytes of the windows in one piece, and where each is in it."""
        views = [(start, end, self._dump.memory.view(start, end)) for start, end in windows.values()]
        if len(views) == 1:
            return views[0][2], [(*views[0][:2], 0)]
        ranges, offset = [], 0
        for start, end, _ in views:
            ranges.append((start, end, offset))
            offset += end - start
        return memoryview(b"".join(view for _, _, view in views)), ranges


def _row_at(images: Images, address: int) -> Row | None:
    found = images.at(address)
    return None if found is None else found.steps.row_at(address - found.bias)
