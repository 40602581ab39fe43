"""Frames of profiles that end with the text of `/proc/PID/maps`: run-time addresses of one process."""

from __future__ import annotations

from bisect import bisect_right

from unwind.process.maps import parse_maps
from unwind.samples.recording import Base, RecordedFrame, RecordedModule, RecordedProcess


class MappedFrames:
    """Makes frames, each once; `FormatError` for a text that the kernel would not write."""

    def __init__(self, maps: bytes, path: str) -> None:
        mappings = [each for each in parse_maps(maps, path) if each.is_executable and each.is_of_file]
        self._starts = [each.start for each in mappings]
        self._modules = [
            RecordedModule(each.path_once, b"", Base.RUN_TIME, each.start, each.end, each.offset) for each in mappings
        ]
        self._frames: dict[tuple[int, bool], RecordedFrame] = {}
        self.process = RecordedProcess(modules=list(self._modules), is_whole=bool(mappings))

    def stack(self, addresses: tuple[int, ...], *, is_called: bool) -> tuple[RecordedFrame, ...]:
        """Return the frames of a stack, all of whose addresses are return addresses, but for the first in some."""
        return tuple([self._frame(address, bool(idx) or is_called) for idx, address in enumerate(addresses)])

    def _frame(self, address: int, is_return_address: bool) -> RecordedFrame:
        key = address, is_return_address
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = RecordedFrame(address, self._module(address - is_return_address))
        return frame

    def _module(self, address: int) -> RecordedModule | None:
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._modules[at].end:
            return None
        return self._modules[at]
