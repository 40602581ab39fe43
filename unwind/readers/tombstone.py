"""Read the backtraces in tombstones and crash dumps of Android.

    #00 pc 0000000000089908  /system/lib64/libc.so (abort+164) (BuildId: 2d6dd1d9)
    #01 pc 0000000000001398  /data/app/shop/base.apk!libshop.so (offset 0x1000) (grow+28)

The address is as linked: that of the call for all frames but the first, less one on x86.
"""

from __future__ import annotations

import re

from unwind.readers.frame_line import FrameLine
from unwind.readers.text_stacks import Dialect
from unwind.samples.recording import RecordedModule

_PC = re.compile(rb"#([0-9]{2,5}) +pc +(?:0x)?([0-9a-f]{8,16}) +")
_BUILD_ID = re.compile(rb" \(BuildId: ([0-9a-f]{2,128})\)")
_SYMBOL = re.compile(rb"\+[0-9]{1,10}\)")
_OFFSET = re.compile(rb" \(offset 0x[0-9a-f]{1,16}\)")
_BUILD_ID_BYTES = 150


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the symbol, the symbol in its brackets or none, what stands after that.
    """
    found = _PC.search(line) if b" pc " in line else None
    if found is None:
        return None
    end = len(line.rstrip())
    at = line.rfind(b" (BuildId: ", max(found.end(), end - _BUILD_ID_BYTES), end)
    build_id = _BUILD_ID.fullmatch(line, at, end) if at > 0 else None
    symbol_end = at if build_id else end
    symbol_start, name = symbol_end, ""
    plus = line.rfind(b"+", found.end(), symbol_end)
    if plus > 0 and _SYMBOL.fullmatch(line, plus, symbol_end):
        start = line.find(b" (", found.end(), plus)
        offset = _OFFSET.match(line, start) if start > 0 else None
        if offset:
            start = line.find(b" (", offset.end(), plus)
        if start > 0:
            symbol_start, name = start, line[start + 2 : plus].decode("utf-8", "replace")
    path = line[found.end() : symbol_start]
    at_offset = path.rfind(b" (offset 0x")
    if at_offset > 0 and _OFFSET.fullmatch(path, at_offset):
        path = path[:at_offset]
    digits = build_id[1].decode("ascii") if build_id else ""
    module = RecordedModule(
        path.rpartition(b"!")[2].decode("utf-8", "surrogateescape"),
        bytes.fromhex(digits) if len(digits) % 2 == 0 else b"",
    )
    parts = (line[:symbol_start], line[symbol_start:symbol_end], line[symbol_end:])
    return FrameLine(int(found[1]), None, module, int(found[2], 16), name=name, parts=parts)


DIALECT = Dialect("tombstone", parse, in_call=True)
recognizes = DIALECT.recognizes
read = DIALECT.read
