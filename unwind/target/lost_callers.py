"""Where frames may be missing between a frame of a recorded stack and the one that stands outwards of it.

A walk along frame pointers leaves out the caller of each function that has no frame at its address, as its code and its
call frame information show. A call that the processor noted is certain: it is the caller of the function that it led
to, and of no other.
"""

from __future__ import annotations

from unwind.resolve.places import Places, has_frame
from unwind.samples.recording import Losses, RecordedFrame
from unwind.target.frame_places import FramePlaces

_KEPT = 1 << 20


class LostCallers:
    """Decides for the frames of one process; `losses` says what the unwinder may have left out."""

    def __init__(self, losses: Losses, code: Places, frame_places: FramePlaces) -> None:
        self._losses, self._code, self._frame_places = losses, code, frame_places
        self._known: dict[tuple[RecordedFrame, bool], bool] = {}  # by frame and whether it is a program counter

    def between(self, frame: RecordedFrame, is_pc: bool) -> Losses:
        """Return which frames may be missing; `is_pc`: the frame's address is a program counter, no return address."""
        if self._losses is not Losses.FRAME_POINTERS:
            return self._losses
        known = self._known.get((frame, is_pc))
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            address = self._frame_places.address(frame)
            known = self._known[frame, is_pc] = address is not None and not self._has_frame(address, is_pc)
        return Losses.FRAME_POINTERS if known else Losses.NONE

    def was_called(self, frame: RecordedFrame, is_pc: bool, callee: int) -> bool:
        """Return whether a call that the processor noted led to the function of a frame: to `callee`; 0: none noted."""
        return self._losses is Losses.NONE or not callee or self._is_entered(frame, is_pc, callee)

    def may_be(self, frame: RecordedFrame, is_pc: bool, callee: int) -> bool:
        """Return whether frames may be missing; `callee` is what the frame outwards has called, if that was noted."""
        if callee:
            return not self.was_called(frame, is_pc, callee)
        return self.between(frame, is_pc) is not Losses.NONE

    def was(self, frame: RecordedFrame) -> bool:
        """Return whether a frame was met between which and its caller others may be missing."""
        return self._losses is Losses.ANY or any(self._known.get((frame, is_pc), False) for is_pc in (True, False))

    def _is_entered(self, frame: RecordedFrame, is_pc: bool, callee: int) -> bool:
        """Return whether the function of a frame is the one that a call led to."""
        address = self._frame_places.address(frame)
        if address is None:
            return False
        body = self._code.of(address, is_pc).body
        entered = self._code.of(self._frame_places.moved(callee), True)
        return body is not None and entered.body is body and entered.vaddr == body.start

    def _has_frame(self, address: int, is_pc: bool) -> bool:
        """Return whether a walk along frame pointers finds the caller of the function at an address."""
        place = self._code.of(address, is_pc)
        if place.body is None:
            return False
        if has_frame(place):
            return True
        image = self._frame_places.image_at(address)
        return image is not None and image.has_frame(place.vaddr)
