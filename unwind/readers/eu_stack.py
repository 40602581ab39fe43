"""Read the stacks that `eu-stack` of elfutils prints, of a process or a core file.

    #0  0x00007f3d0d8f1dd0     __libc_pause - /usr/lib/libc.so.6       -v, -a: a program counter
    #1  0x000055e97535db5e - 1 List<User>::grow(int) - /usr/bin/shop   -v, -a: a return address; -m: its module
        [b1dc]@0x55e97535b000+0x2b5d                                   -b: build id, place, address in it
        /src/shop.h:12:53                                              -s: the line
    #2  0x000055e97535d6b9 List<User>::peek()                          ┐ -i: peek() is inlined in sum()
    #3  0x000055e97535d6b9 List<User>::sum()                           ┘
    #4  0x000055e97535d591                                             -q

Addresses are run-time ones, return addresses raw, and nothing says where modules lay.
"""

from __future__ import annotations

import re

from unwind.readers.frame_line import FrameLine
from unwind.readers.text_stacks import Dialect

BEFORE_LINE = b"    "
LINE = re.compile(rb" {4}\S[^\r\n]{0,4000}:[0-9]{1,9}(?::[0-9]{1,9})?\s*\Z")
_BUILD_ID = re.compile(rb" {4}\[[0-9a-f]{2,128}\]@0x[0-9a-f]{1,16}\+0x[0-9a-f]{1,16}\s*\Z")
_FRAME = re.compile(rb"#(?:([0-9])  |([1-9][0-9]{1,5}) )(0x[0-9a-f]{16})(?: - 1|    )?(?= |\s*\Z)(?! in )")
_FIRST_TEN = re.compile(rb"#[0-9]  0x[0-9a-f]{16}(?: (?!in )|\s*$)", re.MULTILINE)
_SIGNAL = b"__restore_rt"


def recognizes(head: bytes) -> bool:
    """Return whether a text has a stack of eu-stack: from the eleventh frame on its lines are like those of LLVM."""
    return _FIRST_TEN.search(head) is not None and DIALECT.recognizes(head)


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the number, the address with what shows how it is meant, the function, its module, what
    stands after that.
    """
    found = _FRAME.search(line)
    if found is None:
        return None
    end = len(line.rstrip())
    module = max(line.rfind(b" - /", found.end(), end), line.rfind(b" - [", found.end(), end))
    name_end = module if module >= 0 else end
    name = line[found.end() + 1 : name_end]
    address = line[found.start(3) : min(found.end(), end)]
    return FrameLine(
        int(found[1] or found[2]),
        int(found[3], 16),
        name=name.decode("utf-8", "replace"),
        is_signal=name == _SIGNAL,
        parts=(line[: found.start()], address, name, line[name_end:end], line[end:]),
    )


def _joins(before: list[FrameLine], line: FrameLine) -> bool:
    return before[0].address == line.address


def _is_between(line: bytes) -> bool:
    return LINE.match(line) is not None or _BUILD_ID.match(line) is not None


DIALECT = Dialect("eu-stack", parse, _joins, is_between=_is_between)
read = DIALECT.read
