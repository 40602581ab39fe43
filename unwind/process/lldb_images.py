"""The modules that lldb lists for `image list`: the build id of each, and where its lowest page lies.

    [  0] F23CFCE4-A613-6B83-5D30-A5DD07C4FDCD-1133A5C5 0x0000555555554000 /usr/bin/shop
    [  2] E0251283-45CE-65B7-19DA-B776555F2B64-EE0204A1 0x00007ffff7fc8000 [vdso] (0x00007ffff7fc8000)
          /usr/lib/debug/.build-id/7e/bc65.debug        the debug file of the module before
    [  3] F895CEC1 0x0000000000200000 /usr/bin/fixed    no build id: 4 bytes that lldb has made of the file

Lines without the second column are not read: for `image list -o -f` they have what was added to addresses, which looks
the same. It is 0 where `image list -u -o -f` lists a module at a fixed address; such lines are not read either.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LISTED = re.compile(
    rb"\[ {0,2}([0-9]{1,6})\] ([0-9A-F]{8}(?:-[0-9A-F]{2,12}){0,8}) 0x([0-9a-f]{16}|[0-9a-f]{8})"
    rb" (/[^\r\n]{1,4095}?)\s*\Z"
)
_MADE_BYTES = 4


class ListedImage(NamedTuple):
    """A line of the list; `start` is the run-time address of the lowest page."""

    idx: int
    path: str
    build_id: bytes  # empty: it has none
    start: int


def parse_listed(line: bytes) -> ListedImage | None:
    """Return the module that a line lists; None if it lists none that is a file."""
    found = _LISTED.match(line) if line.startswith(b"[") else None
    if found is None or int(found[3], 16) == 0:
        return None
    digits = found[2].replace(b"-", b"").decode("ascii")
    build_id = bytes.fromhex(digits) if len(digits) % 2 == 0 else b""
    path = found[4].decode("utf-8", "surrogateescape")
    return ListedImage(int(found[1]), path, build_id if len(build_id) > _MADE_BYTES else b"", int(found[3], 16))


def parse_list(text: bytes) -> list[ListedImage]:
    """Return the modules of all lists in a text, each place once."""
    return list({listed[1:]: listed for each in text.splitlines() if (listed := parse_listed(each))}.values())
