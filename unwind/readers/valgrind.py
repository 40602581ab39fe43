"""Read the stacks in what valgrind's tools print: Memcheck, Helgrind, DRD.

    ==4711==    at 0x48417B4: malloc (in /usr/libexec/valgrind/vgpreload_memcheck-amd64-linux.so)
    ==4711==    by 0x10AB5D: List<Order>::grow(int) [clone .isra.0] (list.h:12)
    ==4711==    by 0x10A6B8: List<Order>::peek() (list.h:36)                 ┐ one frame: peek() is inlined in sum()
    ==4711==    by 0x10A6B8: List<Order>::sum() (list.h:34)                  ┘
    ==4711==    by 0x4009: ??? (in /usr/bin/shop)

Addresses are run-time ones: a program counter, then return addresses less one. Nothing says where a module lies, but
valgrind loads a program that can lie anywhere always at the same address. Source: valgrind, coregrind/m_debuginfo.
"""

from __future__ import annotations

import re

from unwind.readers.frame_line import FrameLine
from unwind.readers.parentheses import opening_of
from unwind.readers.text_stacks import Dialect

_FRAME = re.compile(rb"==[0-9]{1,10}==(?: Thread [0-9]+)? +(at|by) (0x[0-9A-F]{1,16}): (?=\S)")
_LINE = re.compile(rb"(.{1,4000}):([0-9]{1,9})")
_UNKNOWN = b"???"


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before `at` or `by`, that word, the address, the function, where it is, what stands after that.
    """
    found = _FRAME.search(line)
    if found is None:
        return None
    frame = FrameLine(-1, int(found[2], 16))
    function = read_function(frame, line, found.end())
    frame.parts = (line[: found.start(1)], found[1], found[2], *function)
    return frame


def read_function(frame: FrameLine, line: bytes, start: int) -> tuple[bytes, bytes, bytes]:
    """Read the function of a frame, and its line; return what shows the function, where it is, and what follows."""
    end = len(line.rstrip())
    opening = opening_of(line, end - 1) if line[end - 1 : end] == b")" else -1
    has_place = opening > start and line[opening - 1 : opening] == b" "
    name_end = opening - 1 if has_place else end
    name = line[start:name_end]
    frame.name = "" if name == _UNKNOWN else name.decode("utf-8", "replace")
    place = _LINE.fullmatch(line, opening + 1, end - 1) if has_place else None
    if place:
        frame.file, frame.line = place[1].decode("utf-8", "replace"), int(place[2])
    return name, line[name_end:end], line[end:]


def _joins(before: list[FrameLine], line: FrameLine) -> bool:
    return before[0].address == line.address and bool(before[0].file and line.file)


def _goes_on(before: list[FrameLine], line: FrameLine) -> bool:
    return line.parts[1] == b"by"


DIALECT = Dialect("valgrind", parse, _joins, goes_on=_goes_on, in_call=True)
recognizes = DIALECT.recognizes
read = DIALECT.read
