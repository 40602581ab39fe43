"""Read what gdb prints for `bt`, `bt full` and `thread apply all bt`.

    #0  List<User>::last (this=0x7ffd) at shop.cpp:7             at the first instruction of a line: no address
    #1  0x000055555555d8c5 in List<User>::peek (this=0x7ffd) at shop.cpp:8
    #2  List<User>::sum (this=0x7ffd) at shop.cpp:9              peek() is inlined in it: no address of its own
            total = 3                                            `bt full`
    #3  <signal handler called>                                  the next address is a program counter
    #4  0x00007ffff7a8c000 in raise () from /lib/libc.so.6

Addresses are run-time ones of 16 digits, return addresses raw, and nothing says which module they lie in.
"""

from __future__ import annotations

import re

from unwind.readers.frame_line import FrameLine
from unwind.readers.text_stacks import Dialect

_FRAME = re.compile(rb"#([0-9]{1,6}) {1,3}(?:(0x[0-9a-f]{16}) in )?(?=[^\s0-9#])")
_OPERATOR = re.compile(rb"operator(?!\w)(?:\(\)|<=>|->\*?|<<=?|>>=?|<=?|>=?)")
_LINE = re.compile(rb":([0-9]{1,9})")
_BETWEEN = (b"        ", b"No locals.", b"No symbol table info available.")
_NAME_BYTES = 1 << 14
_SIGNAL = b"<signal handler called>"


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the number, the address, the function, its arguments with their brackets, where it is,
    what stands after that.
    """
    found = _FRAME.search(line)
    if found is None:
        return None
    end = len(line.rstrip())
    text, tail, head = line[found.end() : end], line[end:], line[: found.start()]
    number = int(found[1])
    if text == _SIGNAL:
        return FrameLine(number, name=text.decode("ascii"), is_signal=True, parts=(head, b"", text, b"", b"", tail))
    opening = _opening(text)
    if opening < 0:
        return None
    frame = FrameLine(number, None if found[2] is None else int(found[2], 16))
    name = text[:opening]
    frame.name = name.decode("utf-8", "replace") if name != b"??" else ""
    closing, where = _closing(text)
    frame.parts = (head, found[2] or b"", name, text[opening:closing], where, tail)
    if where.startswith(b" at "):
        at = where.rfind(b":")
        line_number = _LINE.fullmatch(where, at) if at > 0 else None
        frame.file = where[4 : at if line_number else None].decode("utf-8", "replace")
        frame.line = int(line_number[1]) if line_number else 0
    return frame


def _opening(text: bytes) -> int:
    """Return where the arguments of a function begin, with the space before them; -1 if there are none."""
    opening = text.find(b" (")
    if opening <= 0 or b"<" not in text[:opening]:
        return opening if opening > 0 else -1
    depth = at = 0
    while at < min(len(text), _NAME_BYTES):
        operator = _OPERATOR.match(text, at) if text[at] == ord("o") else None
        if operator:
            at = operator.end()
            continue
        if depth == 0 and at and text.startswith(b" (", at):
            return at
        depth += (text[at] in b"<(") - (text[at] in b">)")
        at += 1
    return -1


def _closing(text: bytes) -> tuple[int, bytes]:
    """Return where the arguments end, and what follows; an argument that is wrapped onto the next line has no end."""
    for mark in (b") at ", b") from "):
        at = text.rfind(mark)
        if at > 0:
            return at + 1, text[at + 1 :]
    return len(text), b""


def _joins(before: list[FrameLine], line: FrameLine) -> bool:
    """Return whether a line is of the frame before it: of the outer frames only such lines have no address."""
    return not line.has_place and not line.is_signal and before[0].has_place


def _is_between(line: bytes) -> bool:
    return line.startswith(_BETWEEN)


DIALECT = Dialect("gdb", parse, _joins, is_between=_is_between)
recognizes = DIALECT.recognizes
read = DIALECT.read
