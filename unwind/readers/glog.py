"""Read the stacks that glog and Abseil print: `LOG(FATAL)`, and their handlers of failures.

    *** Check failure stack trace: ***
        @     0x56452b5e4b98  List<User>::push()               glog
        @     0x56452b5e4c09         16  List<User>::add()     Abseil: with the size of the frame
        @     0x56452b5e46b9  (unknown)  (unknown)

Addresses are run-time ones, return addresses raw, the first one, too, and nothing says where modules lay. Source: glog,
src/signalhandler.cc; Abseil, absl/debugging/internal/examine_stack.cc.
"""

from __future__ import annotations

import re

from unwind.readers.frame_line import FrameLine
from unwind.readers.text_stacks import Dialect, has_another_address

_FRAME = re.compile(rb"(?:^|[^:]) {4}@ +(0x[0-9a-f]{1,16}) {1,2}(?: *(?:[0-9]{1,12}|\(unknown\)) {2})?(?=\S)")
_UNKNOWN = b"(unknown)"


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the function, the function, what stands after that.
    """
    found = _FRAME.search(line) if b"@" in line else None
    if found is None:
        return None
    end = len(line.rstrip())
    name = line[found.end() : end]
    shown = "" if name == _UNKNOWN else name.decode("utf-8", "replace")
    return FrameLine(-1, int(found[1], 16), name=shown, parts=(line[: found.end()], name, line[end:]))


DIALECT = Dialect("glog", parse, goes_on=has_another_address, is_called=True)
recognizes = DIALECT.recognizes
read = DIALECT.read
