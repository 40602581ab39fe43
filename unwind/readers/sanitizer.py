"""Read the stacks in reports of sanitizers: ASan, UBSan, TSan, MSan, LSan of clang and gcc.

    #1 0x5581d8c5 in List<User>::peek() /src/shop.cpp:8:83                       a symbolizer was there
    #1 0x5581d8c5  (/usr/bin/shop+0x1398c5) (BuildId: b13b462b)                  none was, or it knew nothing
    #7 0x5581da60 in _start (/usr/bin/shop+0x62a60)                              it knew the name alone
    #0 List<User>::peek() /src/shop.cpp:8:83 (shop+0x1398c5) (BuildId: b13b462b)     TSan
    #0 <null> <null> (shop+0x1398c5)                                             TSan without one

TSan writes the module's file name without its folder, and its build id in the first of several lines.

The hexadecimal number is the run-time address; that in brackets is the address as linked. Both are those of the call,
less one (less four on AArch64), of the first frame too, which counts as a program counter then. Lines at one address
are those of one frame: the functions that are inlined there.
"""

from __future__ import annotations

import re
from itertools import islice

from unwind.readers.frame_line import FrameLine
from unwind.readers.text_stacks import Dialect
from unwind.samples.recording import RecordedModule

_ADDRESS = re.compile(rb"#([0-9]{1,5}) {1,2}(0x(?!0[0-9a-f]{15} )[0-9a-f]{1,16})(?= )")  # 16 digits are gdb's
_NUMBER = re.compile(rb"#([0-9]{1,5}) {1,2}()(?!0x[0-9a-f]{16} )(?=\S)")  # not a line of LLVM
_BUILD_ID = re.compile(rb" ?\(BuildId: ([0-9a-f]{2,128})\)")
_PLACE = re.compile(rb"\+0x([0-9a-f]{1,16})\)")
_LINE = re.compile(rb":([0-9]{1,9})(?::([0-9]{1,9}))?")
_LINE_BYTES = 24  # of a line and a column
_BUILD_ID_BYTES = 150
_NUMBERS = 4  # times that a line may have what looks like the number of a frame, as `build #12 `


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the number, the run-time address, the function, where it is, what stands after that.
    """
    number = _ADDRESS.search(line)
    if number is None and b"+0x" in line:
        number = max(islice(_NUMBER.finditer(line), _NUMBERS), key=re.Match.start, default=None)
    return None if number is None else _parse_after(line, number)


def _parse_after(line: bytes, number: re.Match[bytes]) -> FrameLine | None:
    end = len(line.rstrip())
    text, tail = line[number.end() : end], line[end:]
    module, vaddr, text, place = split_place(text)
    address = number[2]
    frame = FrameLine(int(number[1]), int(address, 16) if address else None, module, vaddr)
    name, where = text, place
    if address:
        if text.startswith(b" in "):
            text = text[4:]
            name, where = (text, place) if module is not None else split_file(text)
        elif module is None:
            return None
    elif module is None:
        return None
    else:
        name, where = split_file(text)
    frame.name = name.decode("utf-8", "replace") if name != b"<null>" else ""
    if not (module is not None and where is place):
        read_file(frame, where)
    head = line[: number.start()]
    frame.parts = (head, address, name, where, place, tail)
    return frame


def split_place(text: bytes) -> tuple[RecordedModule | None, int | None, bytes, bytes]:
    """Return module, address as linked, the text before `(module+0x...) (BuildId: ...)` at its end, and that."""
    end, build_id = len(text), b""
    if text.endswith(b")"):
        at = text.rfind(b"(BuildId: ", max(0, end - _BUILD_ID_BYTES))
        found = _BUILD_ID.fullmatch(text, at - 1) if at > 0 else None
        if found:
            end, build_id = at - 1, found[1]
    at = text.rfind(b"+0x", 0, end)
    found = _PLACE.fullmatch(text, at, end) if at > 0 else None
    if not found:
        return None, None, text, b""
    start = max(text.find(b"(/", 0, at) if text.startswith(b"(/") else text.find(b" (/", 0, at) + 1, 0)
    start = start or (0 if text.startswith(b"(") else text.rfind(b" (", 0, at) + 1)
    if text[start : start + 1] != b"(" or start + 1 == at:
        return None, None, text, b""
    path = text[start + 1 : at].decode("utf-8", "surrogateescape")
    digits = build_id.decode("ascii")
    module = RecordedModule(path, bytes.fromhex(digits) if len(digits) % 2 == 0 else b"")
    return module, int(found[1], 16), text[:start].rstrip(), text[start:]


def split_file(text: bytes) -> tuple[bytes, bytes]:
    """Return the name and the file with line of a function: neither of them is quoted, and both may have spaces."""
    at = text.find(b" /")
    if at < 0:
        at = text.rfind(b" ")
    return (text, b"") if at < 0 else (text[:at], text[at + 1 :])


def read_file(frame: FrameLine, where: bytes) -> None:
    """Read a file with line and column."""
    at = where.find(b":", max(0, len(where) - _LINE_BYTES))
    found = None
    while at >= 0 and found is None:
        found = _LINE.fullmatch(where, at)
        at = where.find(b":", at + 1)
    if found:
        where = where[: found.start()]
        frame.line, frame.column = int(found[1]), int(found[2] or 0)
    frame.file = where.decode("utf-8", "replace") if where not in (b"<null>", b"??") else ""


def _joins(before: list[FrameLine], line: FrameLine) -> bool:
    """Return whether a line is of the frame that lines before it show: without files each is a frame of its own."""
    first = before[0]
    paths = [each.module.path if each.module is not None else None for each in (first, line)]  # one has the build id
    is_same = (first.address, first.vaddr, paths[0]) == (line.address, line.vaddr, paths[1])
    return is_same and bool(first.file and line.file)


DIALECT = Dialect("sanitizer", parse, _joins, in_call=True)
recognizes = DIALECT.recognizes
read = DIALECT.read
