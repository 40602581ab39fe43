"""The stacks of one process of a recording: cut where frames may be missing, answered with the recording's addresses.

Where frames may be missing (`Losses`), a stack is cut: what stands on one side of a gap says nothing about the other. A
walk along frame pointers leaves out the caller of each function that has no frame at its address. A call that the
processor noted is certain: it is the caller of the function that it led to, and of no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from icf.model import RuntimeAddr
from unwind.resolve.resolver import Resolver
from unwind.samples.recording import Losses, RecordedFrame, Sample
from unwind.symbolize.answer import Answer
from unwind.target.recorded_images import Located

KEPT_ANSWERS = 1 << 20

Answers = tuple[Answer, ...]


class ProcessStacks:
    """One process: its resolver, what is known of its frames, and how far its modules lie from their places."""

    def __init__(self, resolver: Resolver, located: Sequence[Located], root: str) -> None:
        self.resolver, self.root = resolver, root
        self.addresses: dict[RecordedFrame, int | None] = {}  # in the address space of all images
        self.recorded: dict[tuple[RecordedFrame, Answer], Answer] = {}  # with the addresses of the recording
        self._losing: dict[tuple[RecordedFrame, bool], bool] = {}  # may its caller be missing; is it a program counter
        # start and end of each place, and what to add to an address there to get one of the process
        self._moves = [(each.image.start, each.image.end, -each.to_linked - each.image.bias) for each in located]
        self._is_moved = any(move for _, _, move in self._moves)

    def resolve(self, sample: Sample, addresses: Sequence[int | None], losses: Losses) -> Answers:
        """Return an answer for each frame; `addresses` are theirs in the address space of all images."""
        vptrs = tuple([(idx, self._moved(vptr)) for idx, vptr in sample.vptrs])
        if losses is Losses.NONE:
            return self._resolve_part(sample, addresses, vptrs, 0, len(addresses))
        answers: list[Answer] = []
        start = 0
        callers = (*sample.frames[1:], None)
        for idx, (frame, address, caller) in enumerate(zip(sample.frames, addresses, callers, strict=True)):
            is_pc = frame.is_exact or (idx == 0 and not sample.is_called)
            if caller is None or not (
                self._is_entered(address, is_pc, caller.callee)
                if caller.callee
                else not self._may_lose_caller(frame, address, is_pc, losses)
            ):
                answers += self._resolve_part(sample, addresses, vptrs, start, idx + 1)
                start = idx + 1
        return tuple(answers)

    def loses_caller(self, frame: RecordedFrame) -> bool:
        """Return whether a frame was met whose caller may be missing."""
        return self._losing.get((frame, True), False) or self._losing.get((frame, False), False)

    def returns_to(self, call: int) -> int | None:
        """Return where a call returns to, by the address of its first byte; None if no call is there."""
        process = self.resolver.process
        module = process.module_at(RuntimeAddr(call))
        if module is None:
            return None
        end = process.program(module).code.call_end(module.linked(RuntimeAddr(call)))
        return end + module.bias if end else None

    def as_recorded(self, answer: Answer) -> Answer:
        """Return a copy of an answer, with the addresses of this process."""
        recorded = copy(answer)
        if self._is_moved:
            if answer.address is not None:
                recorded.address = self._back(answer.address)
            if answer.size_bytes:
                recorded.start = self._back(answer.start)
            recorded.missing = tuple(self.as_recorded(each) for each in answer.missing)
            if answer.reason is not None and answer.reason.address is not None:
                recorded.reason = answer.reason._replace(address=self._back(answer.reason.address))
        return recorded

    def _resolve_part(
        self,
        sample: Sample,
        addresses: Sequence[int | None],
        vptrs: tuple[tuple[int, int], ...],
        start: int,
        end: int,
    ) -> Answers:
        """Return the answers for the frames `start:end`; nothing is known of what called the last one."""
        first = 0
        part = list(addresses[start:end])
        if start or sample.is_called:  # the first address follows a call, too: something unknown was called
            part.insert(0, None)
            first = 1
        exact = [idx - start + first for idx in range(start, end) if idx and sample.frames[idx].is_exact]
        moved = tuple([(idx - start + first, vptr) for idx, vptr in vptrs if start <= idx < end])
        return self.resolver.resolve(part, moved, exact)[first:]

    def _may_lose_caller(self, frame: RecordedFrame, address: int | None, is_pc: bool, losses: Losses) -> bool:
        known = self._losing.get((frame, is_pc))
        if known is None:
            if len(self._losing) >= KEPT_ANSWERS:
                self._losing.clear()
            known = losses is Losses.ANY or (address is not None and not self._has_frame(address, is_pc))
            self._losing[frame, is_pc] = known
        return known

    def _is_entered(self, address: int | None, is_pc: bool, callee: int) -> bool:
        """Return whether the function at an address is the one that a call led to."""
        if address is None:
            return False
        body = self.resolver.places.of(address, is_pc).body
        entered = self.resolver.places.of(self._moved(callee), True)
        return body is not None and entered.body is body and entered.vaddr == body.start

    def _has_frame(self, address: int, is_pc: bool) -> bool:
        """Return whether a walk along frame pointers finds the caller of the function at an address."""
        place = self.resolver.places.of(address, is_pc)
        if place.body is None:
            return False
        code = place.body.program.code
        return code.has_frame(place.body.start, place.vaddr, is_called=not is_pc and place.return_address != 0)

    def _moved(self, address: int) -> int:
        """Return the place of an address of this process."""
        for start, end, move in self._moves:
            if start <= address - move < end:
                return address - move
        return address

    def _back(self, address: int) -> int:
        for start, end, move in self._moves:
            if start <= address <= end:
                return address + move
        return address
