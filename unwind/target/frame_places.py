"""Where the frames of one process lie in the address space of all images, and back: answers with its own addresses."""

from __future__ import annotations

from collections.abc import Sequence

from icf.model import RuntimeAddr
from unwind.process.process import Process
from unwind.samples.recording import RecordedFrame
from unwind.symbolize.answer import Answer
from unwind.target.recorded_images import Located, PlacedImage, RecordedImages

_KEPT = 1 << 20


class FramePlaces:
    """Moves addresses of one process to the places of its modules, and answers back."""

    def __init__(self, process: Process, images: RecordedImages, located: Sequence[Located], root: str) -> None:
        self._process, self._images, self._root = process, images, root
        self._addresses: dict[RecordedFrame, int | None] = {}
        self._placed = [each.image for each in located]
        # start and end of each place, and what to add to an address there to get one of the process
        self._moves = [(each.image.start, each.image.end, -each.to_linked - each.image.bias) for each in located]
        self.are_moved = any(move for _, _, move in self._moves)

    def address(self, frame: RecordedFrame) -> int | None:
        """Return where a frame lies; None if it is in none of the images."""
        known = self._addresses
        if frame not in known:
            if len(known) >= _KEPT:
                known.clear()
            known[frame] = None
            if frame.address is not None and frame.module is not None:
                address = self._images.address(frame.address, frame.module, self._root, in_call=frame.in_call)
                known[frame] = self._returns_to(address) if frame.callee and address is not None else address
        return known[frame]

    def image_at(self, address: int) -> PlacedImage | None:
        """Return the image that lies at an address of all images."""
        return next((each for each in self._placed if each.start <= address < each.end), None)

    def moved(self, address: int) -> int:
        """Return the place of an address of this process."""
        for start, end, move in self._moves:
            if start <= address - move < end:
                return address - move
        return address

    def as_recorded(self, answer: Answer) -> Answer:
        """Return a copy of an answer, with the addresses of this process."""
        recorded = answer.copy()
        if self.are_moved:
            if answer.address is not None:
                recorded.address = self.back(answer.address)
            if answer.size_bytes:
                recorded.start = self.back(answer.start)
            recorded.missing = tuple(self.as_recorded(each) for each in answer.missing)
            if answer.reason is not None and answer.reason.address is not None:
                recorded.reason = answer.reason._replace(address=self.back(answer.reason.address))
        return recorded

    def unknown_path(self, frame: RecordedFrame) -> str:
        """Return the path of the module of an unknown frame; "" if its image is known, and has nothing there."""
        if frame.module is None or self._images.locate(frame.module, self._root) is not None:
            return ""
        return frame.module.path

    def back(self, address: int) -> int:
        """Return what the process has for an address of all images."""
        for start, end, move in self._moves:
            if start <= address <= end:
                return address + move
        return address

    def _returns_to(self, call: int) -> int | None:
        """Return where a call returns to, by the address of its first byte; None if no call is there."""
        module = self._process.module_at(RuntimeAddr(call))
        if module is None:
            return None
        end = self._process.program(module).code.call_end(module.linked(RuntimeAddr(call)))
        return end + module.bias if end else None
