"""Stacks that the processor kept: `perf record --call-graph lbr`, on Intel.

The processor notes each call of the program, and forgets it when the function returns. So it knows the stack, innermost
first: `from` is the address of a call instruction, `to` the function that it called. The kernel's part, and the program
counter where the program entered the kernel, are in the call chain:

    call chain    KERNEL ip, return addresses .. USER pc, ..      those after pc are of a walk along frame pointers
    branches      (from, to), (from, to), ..                      the last call first
    frames        ip, return addresses .., pc, from, from, ..

The processor keeps 8 to 32 calls, so stacks may end early. Calls that an exception or `longjmp` has left stay among
them; such a call does not lead to the function of the frame inwards of it, which the resolver sees by `to`.
`perf script` shows the first `to` in place of pc: the start of the same function.
"""

from __future__ import annotations

from collections.abc import Mapping

from unwind.readers.perf_data.frames import Frames, Tables, frames_of
from unwind.readers.perf_data.layout import CONTEXT_USER, CONTEXT_USER_DEFERRED, U64
from unwind.samples.recording import RecordedFrame

_USER = (CONTEXT_USER, CONTEXT_USER_DEFERRED)
_KEPT_FRAMES = 1 << 18


class BranchStacks:
    """Makes the frames of calls, each once: one call that leads to two functions is two frames."""

    def __init__(self, others: Mapping[int, Tables]) -> None:
        self._others = others
        self._calls: dict[tuple[RecordedFrame, int], RecordedFrame] = {}

    def frames(self, chain: bytes, branches: tuple[int, ...], default: int, user: Tables) -> Frames:
        """Return the frames of a sample; none if it does not have the program's part in its branches.

        Args:
            chain: the kernel's call chain
            branches: from and to of each call, the last one first
            default: the marker for what stands before the first one of the chain
            user: the frames of the program
        """
        values = memoryview(chain).cast("Q")
        at = next((idx for idx, value in enumerate(values) if value in _USER), None)
        if at is None or not branches:
            return ()
        kernel, _ = frames_of(chain[: U64.size * at], default, user, self._others)
        has_pc = values[at] == CONTEXT_USER and len(values) > at + 1
        pc = values[at + 1] if has_pc else branches[1]
        calls = zip(map(user.exact.__getitem__, branches[::2]), branches[1::2], strict=True)
        return (*kernel, user.exact[pc], *(self._call(*each) for each in calls))

    def _call(self, at: RecordedFrame, callee: int) -> RecordedFrame:
        frame = self._calls.get((at, callee))
        if frame is None:
            if len(self._calls) >= _KEPT_FRAMES:
                self._calls.clear()
            frame = self._calls[at, callee] = RecordedFrame(at.address, at.module, at.name, callee=callee)
        return frame
