"""The images of a running process whose stacks were copied: those that are mapped now, if they were so then."""

from __future__ import annotations

from bisect import bisect_right

from unwind.dumps.live import LiveDump
from unwind.dumps.loaded import LoadedImage, loaded, read
from unwind.process.live.live_process import LiveModule, LiveProcess
from unwind.process.maps import Mapping


class LiveImages:
    """Finds images by run-time addresses (`unwind.dumps.loaded.Images`)."""

    def __init__(self, live: LiveProcess, copied: LiveDump) -> None:
        self._live, self._copied = live, copied
        self._starts = [each.start for each in copied.mappings]
        self._loaded: dict[LiveModule, LoadedImage] = {}

    def at(self, address: int) -> LoadedImage | None:
        """Return the image that lies at an address; None if it is not found, or another lay there."""
        module = self._live.where(address).module
        if module is None or not self.is_as_it_was(address):
            return None
        if module not in self._loaded:
            self._loaded[module] = loaded(module.image, module.bias, module.start, module.end)
        return self._loaded[module]

    def problem_at(self, address: int) -> str:
        """Return why the image at an address is not taken; empty if it is, or nothing lies there."""
        then = self._mapping(address)
        if then is None or not then.is_of_file or self.at(address) is not None:
            return ""
        return f"{then.path_once}: {'cannot be read' if self.is_as_it_was(address) else 'is mapped no longer'}"

    def is_as_it_was(self, address: int) -> bool:
        """Return whether the same part of the same file is mapped at an address now."""
        then, (now, _) = self._mapping(address), self._live.mapped_at(address)
        if then is None or now is None:
            return then is now
        return then.file_id == now.file_id and then.offset - then.start == now.offset - now.start

    def read(self, address: int, size_bytes: int, /) -> bytes | None:
        """Return memory of the process: what was copied of it, else what its images say."""
        return read(self._copied.dump.memory, self, address, size_bytes)

    def _mapping(self, address: int) -> Mapping | None:
        at = bisect_right(self._starts, address) - 1
        mappings = self._copied.mappings
        return mappings[at] if at >= 0 and address < mappings[at].end else None
