"""Read what glibc's backtrace_symbols() and backtrace_symbols_fd() write.

    ./shop(+0x1398c5) [0x5581d8c5]           less the address where the module was loaded, and the run-time address
    ./shop(main+0x2a) [0x5581d7f0]           less the symbol's, where the module exports one
    ./shop() [0x4013c5]                      a program at a fixed address
    ./shop[0x4013c5]                         the same from backtrace_symbols_fd(), which writes no spaces
    /lib/libc.so.6(abort+0xd3) [0x7f71db23]
    ./d8(v8::Isolate::Enter()+0x9) [0x5581d7f0]        V8 and Chromium have demangled it

All of them are return addresses, the first one, too. Symbols are linkage names, and those of exported functions alone.
"""

from __future__ import annotations

import re

from unwind.readers import strace
from unwind.readers.frame_line import FrameLine
from unwind.readers.parentheses import opening_of
from unwind.readers.text_stacks import Dialect, has_another_address
from unwind.samples.recording import RecordedModule

_ADDRESS = re.compile(rb"\[0x([0-9a-f]{1,16})\]")
_SYMBOL = re.compile(rb"([^()+\s]{0,4000})\+0x([0-9a-f]{1,16})")
_DEMANGLED = re.compile(rb"(?=.{0,4000}[(<:])(.{1,4000})\+0x[0-9a-f]{1,16}")
_ADDRESS_BYTES = 20


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the symbol's bracket, the run-time address with its brackets, what stands after that.
    """
    end = len(line.rstrip())
    at = line.rfind(b"[0x", max(0, end - _ADDRESS_BYTES), end)
    found = _ADDRESS.fullmatch(line, at, end) if at > 0 and not line.startswith(strace.MARK) else None
    if found is None:
        return None
    address = int(found[1], 16)
    vaddr: int | None = address
    closing = at - (line[at - 1] == ord(" ")) - 1
    opening, symbol, demangled = at, None, None
    if line[closing : closing + 1] == b")":
        opening = opening_of(line, closing)
        symbol = _SYMBOL.fullmatch(line, opening + 1, closing)
        demangled = _DEMANGLED.fullmatch(line, opening + 1, closing) if symbol is None else None
        if opening < 0 or (symbol is None and demangled is None and opening + 1 < closing):
            return None
    elif line[at - 1] == ord(" ") or b"/" not in line:
        return None
    path = _path(line[:opening])
    if not path:
        return None
    name = shown = ""
    if symbol:
        shown = name = symbol[1].decode("ascii", "replace")
        vaddr = int(symbol[2], 16)
    elif demangled:
        shown, vaddr = demangled[1].decode("utf-8", "replace"), None
    is_bracketed = opening < at
    parts = (line[:opening], line[closing + 1 : end] if is_bracketed else line[at:end], line[end:])
    return FrameLine(-1, address, RecordedModule(path), vaddr, name, shown, parts=parts)


def _path(text: bytes) -> str:
    """Return the path at the end of a text; what stands before it, as a time, ends with a space."""
    at = 0 if text.startswith((b"/", b"./")) else text.rfind(b" ") + 1
    return text[at:].decode("utf-8", "surrogateescape")


DIALECT = Dialect("backtrace", parse, goes_on=has_another_address, is_called=True)
recognizes = DIALECT.recognizes
read = DIALECT.read
