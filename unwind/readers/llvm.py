"""Read the stacks that LLVM's tools print when they crash (`llvm::sys::PrintStackTrace`): clang, opt, lld.

     #1 0x0000555500002afc List<Payment>::grow() /src/./a.h:11:62                a symbolizer was there
     #1 0x0000555500002afc List<Payment>::grow() (/usr/bin/shop+0x2afc)          none was
     #2 0x00007f86a82b4d24 (/usr/lib/libLLVM.so.19.1+0xeb4d24)                   not even a name

The first number is the run-time address, that in brackets the address as linked. Both are return addresses, raw, of the
first frame, too: that is of the function which writes the stack. Source: llvm/lib/Support/Unix/Signals.inc.
"""

from __future__ import annotations

import re

from unwind.readers.frame_line import FrameLine
from unwind.readers.sanitizer import read_file, split_file, split_place
from unwind.readers.text_stacks import Dialect

_FRAME = re.compile(rb"#([0-9]{1,5}) (0x[0-9a-f]{16}) (?!in )(?=\S)")


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts are those of `sanitizer.parse`.
    """
    found = _FRAME.search(line)
    if found is None:
        return None
    end = len(line.rstrip())
    module, vaddr, name, place = split_place(line[found.end() : end])
    frame = FrameLine(int(found[1]), int(found[2], 16), module, vaddr)
    where = place
    if module is None:
        name, where = split_file(name)
        if b":" not in where:
            return None
        read_file(frame, where)
    frame.name = name.decode("utf-8", "replace")
    frame.parts = (line[: found.start()], found[2], name, where, place, line[end:])
    return frame


def _joins(before: list[FrameLine], line: FrameLine) -> bool:
    """Return whether a line is of the frame that lines before it show: of functions inlined there, with files."""
    return before[0].address == line.address and bool(before[0].file and line.file)


DIALECT = Dialect("llvm", parse, _joins, is_called=True)
recognizes = DIALECT.recognizes
read = DIALECT.read
