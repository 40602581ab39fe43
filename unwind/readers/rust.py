"""Read the backtraces of Rust's standard library: of a panic with RUST_BACKTRACE=full, and of `Backtrace`.

    stack backtrace:
       0:     0x55f7f1be29cb - shop::grow::h583d3dabbdfdb0fe          ┐ one frame: grow() is inlined in add()
                                   at /src/shop.rs:4:67               │
       1:     0x55f7f1be29cb - shop::add::hea2a3d714a09af46           ┘
      31:     0x55f7f1be2a3c - main                                   without debug information there is no file

Addresses are run-time ones, return addresses raw, the first one, too. Nothing says which module they lie in. What
RUST_BACKTRACE=1 prints, and a `Backtrace` with `{}`, has no addresses.
"""

from __future__ import annotations

import re

from icf.errors import IcfError
from unwind.readers.frame_line import FrameLine
from unwind.readers.source import Source
from unwind.readers.text_stacks import Dialect
from unwind.samples.recording import Recording

NUMBER_WIDTH, ADDRESS_WIDTH = 4, 18
AT = b" " * (ADDRESS_WIDTH + 13) + b"at "
_FRAME = re.compile(rb"(?<![0-9])([0-9]{1,6}): {1,20}(0x[0-9a-f]{1,16}) - ")
_SHORT = re.compile(rb"^(?:stack backtrace:\r?\n +0: | +0: \S.*\r?\n +at \S)", re.MULTILINE)
_SHORT_HINT = "run with RUST_BACKTRACE=full, and print a Backtrace with {:#}"
_HASH = re.compile(r"::h[0-9a-f]{16}\Z")
LINE = re.compile(rb" {13,31}at ")
_UNKNOWN = b"<unknown>"


def recognizes(head: bytes) -> bool:
    """Return whether a text has a backtrace of Rust."""
    return DIALECT.recognizes(head) or _SHORT.search(head) is not None


def read(source: Source) -> Recording:
    """Return the backtraces in a text; `IcfError` if they have no addresses."""
    if not DIALECT.recognizes(source.head) and _SHORT.search(source.head):
        raise IcfError(f"{source.path}: the backtraces have no addresses", hint=_SHORT_HINT)
    return DIALECT.read(source)


def parse(line: bytes) -> FrameLine | None:
    """Return the frame that a line shows; None if it shows none.

    Its parts: the text before the number with its width, the address, the function, what stands after that.
    """
    found = _FRAME.search(line) if b" - " in line else None
    if found is None:
        return None
    end = len(line.rstrip())
    name = line[found.end() : end]
    start = max(found.end(1) - NUMBER_WIDTH, 0)
    start = start if not line[start : found.start(1)].strip(b" ") else found.start(1)
    shown = "" if name == _UNKNOWN else _HASH.sub("", name.decode("utf-8", "replace"))
    parts = (line[:start], found[2], name, line[end:])
    return FrameLine(int(found[1]), int(found[2], 16), name=shown, parts=parts)


def _joins(before: list[FrameLine], line: FrameLine) -> bool:
    return before[0].address == line.address


def _is_between(line: bytes) -> bool:
    return LINE.match(line) is not None


DIALECT = Dialect("rust", parse, _joins, is_between=_is_between, is_called=True)
