"""Perf maps: the lines by which compilers at run time name their functions for profilers.

    7f80f62cc016 b py::_ModuleLockManager.__enter__:<frozen importlib._bootstrap>
    start size name                  both in hexadecimal; the name is the rest of the line, spaces and all

CPython (`-X perf`), node (`--perf-basic-prof`), Java (`jcmd PID Compiler.perfmap`), .NET and others append to
`/tmp/perf-PID.map` while they run. No entry is ever removed: a later entry replaces earlier ones that it overlaps. Each
reading goes on where the last one ended; a last line without its end waits for the rest. If the bytes read earlier are
gone, the file was written anew, and is read anew.

The log may be truncated, or mixed up by two writers at once. A line that is not an entry is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from unwind.process.jit.code import JitCode
from unwind.process.jit.growing_file import GrowingFile
from unwind.process.jit.regions import Regions

_ENTRY = re.compile(rb"(?:0[xX])?([0-9a-fA-F]{1,16})[ \t]+(?:0[xX])?([0-9a-fA-F]{1,16})[ \t]+(.*?)\s*", re.DOTALL)
_LINE_LIMIT_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20


class PerfMap:
    """The entries of one such file, as far as they were read."""

    def __init__(self) -> None:
        self._file = GrowingFile()
        self._regions: Regions[JitCode] = Regions()
        self._in_long_line = False

    def find(self, address: int) -> JitCode | None:
        """Return the function made last that covers the address."""
        return self._regions.find(address)

    def codes(self) -> Iterator[JitCode]:
        """Yield the functions that no later one covers from their start on."""
        found = (self.find(start) for start in self._regions.starts())
        yield from dict.fromkeys(code for code in found if code is not None)

    def read(self, fd: int) -> None:
        """Read the bytes added to the open file, or all of it if it was written anew."""
        file = self._file
        if not file.has_more(fd):
            return
        if file.was_replaced(fd):
            self._regions, self._in_long_line = Regions(), False
        added: list[tuple[int, int, JitCode]] = []
        offset = file.offset
        while piece := os.pread(fd, _PIECE_BYTES, offset):
            *lines, rest = piece.split(b"\n")
            if not lines and len(rest) < _LINE_LIMIT_BYTES:
                break  # its end is still to come
            if self._in_long_line and lines:
                self._in_long_line = False
                del lines[0]
            elif not lines:
                self._in_long_line, rest = True, b""
            for line in lines:
                self._take(line, added)
            offset += len(piece) - len(rest)
        file.go_on_from(fd, offset)
        self._regions.add(added)

    def _take(self, line: bytes, added: list[tuple[int, int, JitCode]]) -> None:
        match = _ENTRY.fullmatch(line)
        if match is None or not match[3]:
            return
        start, size_bytes = int(match[1], 16), int(match[2], 16)
        if start + size_bytes <= 1 << 64:
            code = JitCode(str(match[3], "utf-8", "surrogateescape"), start, size_bytes)
            added.append((start, start + size_bytes, code))
