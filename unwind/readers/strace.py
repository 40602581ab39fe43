"""Read the stacks that `strace -k` prints below each system call.

    pause()                                 = ? ERESTARTNOHAND (To be restarted if no handler)
     > /usr/lib/x86_64-linux-gnu/libc.so.6(pause+0x10) [0xd3dd0]
     > /usr/bin/shop(List<Order>::grow(int) [clone .isra.0]+0x1e) [0x1b5e]
     > /usr/bin/shop() [0x4009]                                                  the program is stripped
     > unexpected_backtracing_error [0x7f8002b85a90]                             a frame, of which no more is known

The number in square brackets is an offset in the file, not an address. The first frame is a program counter, the others
are return addresses, raw or less one. Source: strace, src/unwind.c.
"""

from __future__ import annotations

import re

from unwind.readers.frame_line import FrameLine
from unwind.readers.parentheses import opening_of
from unwind.readers.text_stacks import Dialect
from unwind.samples.recording import Base, RecordedModule

MARK = b" > "
_PLACE = re.compile(rb"\) \[0x([0-9a-f]{1,16})\]")
_SYMBOL = re.compile(rb"(.{1,4000})\+0x[0-9a-f]{1,16}")


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the symbol's bracket, the symbol with its offset, what stands after that.
    """
    if not line.startswith(MARK):
        return None
    frame = FrameLine(parts=(line, b"", b""))
    at = line.rfind(b") [0x")
    place = _PLACE.match(line, at) if at > 0 else None
    opening = opening_of(line, at) if place else -1
    if place is None or opening <= len(MARK):
        return frame
    symbol = line[opening + 1 : at]
    found = _SYMBOL.fullmatch(symbol)
    path = line[len(MARK) : opening].decode("utf-8", "surrogateescape")
    frame.module, frame.vaddr = RecordedModule(path, base=Base.OFFSET), int(place[1], 16)
    frame.name = found[1].decode("utf-8", "replace") if found else ""
    frame.parts = (line[:opening], symbol, line[at + 1 :])
    return frame


def _goes_on(before: list[FrameLine], line: FrameLine) -> bool:
    return True  # up to the next system call


DIALECT = Dialect("strace", parse, goes_on=_goes_on)
recognizes = DIALECT.recognizes
read = DIALECT.read
