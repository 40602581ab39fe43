"""Read the stacks that systemd-coredump writes to the journal: `journalctl`, `coredumpctl info`.

    Found module libc.so.6 with build-id: 18b9a9a8c523e5cf                      systemd 249 and some after it
    Stack trace of thread 4711:
    #0  0x00007f9eb4611dd0 __libc_pause (libc.so.6 + 0xd3dd0)
    #1  0x0000561a7455f930 _ZN4ListI5OrderE4growEv (shop + 0x1930)
    #2  0x0000561a7455f8ff n/a (/usr/bin/shop)                                  up to systemd 243
    #3  0x00007f8002b85a90 __restore_rt (libpthread.so.0 + 0x14a90)             the next one was interrupted

The first number is the run-time address, that in brackets is counted from where the module begins. The first frame is a
program counter, the others are return addresses, raw. Source: systemd, src/shared/elf-util.c.
"""

from __future__ import annotations

import re

from unwind.readers.frame_line import FrameLine
from unwind.readers.text_stacks import Dialect
from unwind.samples.recording import Base, RecordedModule

_FRAME = re.compile(rb"#(?:([0-9])  |([1-9][0-9]{1,5}) )(0x[0-9a-f]{16}) (?!in )(?=\S)")
_MODULE = re.compile(rb"([^()]+?)(?: \+ 0x([0-9a-f]{1,16}))?\)")
_MODULE_BYTES = 1 << 12
_UNKNOWN = b"n/a"
_SIGNAL = b"__restore_rt"


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the number, the address, the function, the module in brackets, what stands after that.
    """
    found = _FRAME.search(line)
    if found is None:
        return None
    end = len(line.rstrip())
    opening = line.rfind(b" (", max(found.end(), end - _MODULE_BYTES), end)
    place = _MODULE.fullmatch(line, opening + 2, end) if opening > 0 else None
    if place is None or b"+0x" in place[1]:  # LLVM's, from #10 on
        return None
    name = line[found.end() : opening]
    frame = FrameLine(int(found[1] or found[2]), int(found[3], 16), is_signal=name == _SIGNAL)
    if place[2] and place[1] != _UNKNOWN:
        frame.module = RecordedModule(place[1].decode("utf-8", "surrogateescape"), base=Base.LOWEST)
        frame.vaddr = int(place[2], 16)
    frame.name = name.decode("utf-8", "replace") if name != _UNKNOWN else ""
    frame.parts = (line[: found.start()], found[3], name, line[opening + 1 : end], line[end:])
    return frame


DIALECT = Dialect("systemd", parse)
recognizes = DIALECT.recognizes
read = DIALECT.read
