"""Read what lldb prints for `bt`, `bt all` and `thread backtrace`.

    * thread #1, name = 'shop', stop reason = signal SIGSEGV
      * frame #0: 0x0000555555555925 shop`List<User>::grow(this=0x0000555555557c50, n=6) at list.h:4:91
        frame #1: 0x0000555555555b0f shop`List<User>::sum() [inlined] List<User>::peek(n=6) at list.h:8:9  ┐ one frame
        frame #2: 0x0000555555555aa9 shop`List<User>::sum() at list.h:9:3                                  ┘
        frame #3: 0x000055555555580c shop`post(p=<unavailable>) at shop.cpp:5:67 [opt] [artificial]
        frame #4: 0x00007ffff7a5a050 libc.so.6`__restore_rt                    the next address is a program counter
        frame #5: 0x0000555555555791 shop`_start + 33                          no debug information: a symbol
        frame #6: 0x0000555555555712 shop`___lldb_unnamed_symbol25 + 6         the program is stripped
        frame #7: 0x00007fffd0001234                                           in no module

Addresses are run-time ones, return addresses raw. A line after one that is `[inlined]` has the address where the
inlined code begins; `[artificial]` frames, of which a tail call left nothing in the stack, have an address after the
jump: neither of these counts. The module is a file's name alone, and `image list` says where it lay
(`unwind.process.lldb_images`). Source: lldb, the setting `frame-format`.
"""

from __future__ import annotations

import re

from icf.demangle import qualified_name
from unwind.readers.frame_line import FrameLine
from unwind.readers.text_stacks import Dialect
from unwind.samples.recording import RecordedModule

_FRAME = re.compile(
    rb"(?:^|(?<=[\s*]))frame (#([0-9]{1,6})): (0x(?:[0-9a-f]{16}|[0-9a-f]{8}))(?: ([^`\s][^`]{0,255})`|(?=\s*\Z))"
)
_FLAG = re.compile(rb" \[[a-z]{1,16}\]\Z")
_LINE = re.compile(rb" at [^\r\n]{1,4000}?:([0-9]{1,9})(?::([0-9]{1,9}))?")
_OFFSET = re.compile(rb" \+ [0-9]{1,19}\Z")
_STRING = re.compile(rb'= ?"')
_UNNAMED = re.compile(rb"___lldb_unnamed_symbol[0-9$]")
INLINED = b" [inlined] "
_ARTIFICIAL = b" [artificial]"
_SIGNAL_NAMES = frozenset(["__restore_rt", "__restore", "__kernel_rt_sigreturn"])
_NAME_BYTES, _PLACE_BYTES, _FLAGS = 1 << 12, 1 << 12, 8


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the number, the address, the module with its backtick, the function that this one is
    inlined in, the function, its arguments or the offset in it, where it is, its flags, what stands after that.
    """
    found = _FRAME.search(line) if b"frame #" in line else None
    if found is None:
        return None
    text_end = len(line.rstrip())
    end, flags_at = text_end, text_end
    for _ in range(_FLAGS):
        flag = _FLAG.search(line, max(end - 20, found.end()), end)
        if flag is None:
            break
        end = flags_at = flag.start()
    frame = FrameLine(int(found[2]), int(found[3], 16))
    if found[4]:
        frame.module = RecordedModule(found[4].decode("utf-8", "surrogateescape"))
    where_at = line.rfind(b" at ", max(found.end(), end - _PLACE_BYTES), end)
    where = _LINE.fullmatch(line, where_at, end) if where_at >= 0 else None
    if where:
        end = where_at
        frame.line, frame.column = int(where[1]), int(where[2] or 0)
        frame.file = line[where_at + len(b" at ") : where.end() - _number_bytes(where)].decode("utf-8", "replace")
    outer, text = _split_inlined(line[found.end() : end])
    frame.name, name, rest = _function(text)
    frame.is_signal = frame.name in _SIGNAL_NAMES
    if _ARTIFICIAL in line[flags_at:text_end]:
        frame.address = frame.module = None
    where_text, flags = line[end:flags_at], line[flags_at:text_end]
    place = line[found.end(3) : found.end()]
    frame.parts = (line[: found.start(1)], found[3], place, outer, name, rest, where_text, flags, line[text_end:])
    return frame


def _number_bytes(where: re.Match[bytes]) -> int:
    """Return the size of the line and the column, with their colons."""
    return where.end() - where.start(1) + 1


def _split_inlined(text: bytes) -> tuple[bytes, bytes]:
    """Return what a function is inlined in, and the function; a string among arguments may look like that."""
    at = text.find(INLINED)
    if at < 0 or _STRING.search(text, 0, at):
        return b"", text
    return text[: at + len(INLINED)], text[at + len(INLINED) :]


def _function(text: bytes) -> tuple[str, bytes, bytes]:
    """Return the name of a function, how it is written, and what follows: values of its arguments, or an offset."""
    if _UNNAMED.match(text):
        return "", text, b""
    offset = _OFFSET.search(text, max(0, len(text) - 24))
    if offset:
        name = text[: offset.start()]
        return name.decode("utf-8", "replace"), name, text[offset.start() :]
    shown = text[:_NAME_BYTES].decode("utf-8", "surrogateescape")
    name = qualified_name(shown).encode("utf-8", "surrogateescape")
    at = text.find(name + b"(")
    if not name or at < 0:
        return text.decode("utf-8", "replace"), text, b""
    end = at + len(name)
    return name.decode("utf-8", "replace"), text[:end], text[end:]


def is_artificial(line: FrameLine) -> bool:
    """Return whether a line is of a function that tail-called the one before: nothing in the stack is its own."""
    return line.address is None


def _joins(before: list[FrameLine], line: FrameLine) -> bool:
    """Return whether a line shows the function that the one before is inlined in, or that tail calls led on from."""
    return is_artificial(before[-1]) or bool(before[-1].parts[3])


DIALECT = Dialect("lldb", parse, _joins, marks_inlined=True)
recognizes = DIALECT.recognizes
read = DIALECT.read
