"""The mappings of a process: `/proc/PID/maps`.

    7f61ebe1000-7f61ebeb000 r-xp 00027000 fe:00 338944                     /usr/lib/ld-linux-x86-64.so.2
    start       end         rights offset device inode                     path

The kernel pads the line with spaces before the path and writes a newline in it as `\012`; spaces and all other bytes
are there as they are. A mapping without a file has inode 0 and no path, or a word in brackets: `[heap]`, `[vdso]`,
`[vsyscall]`, `[anon:NAME]`. ` (deleted)` follows a path that no longer leads to the file; memory that several
processes share (`/memfd:NAME`, `/SYSV00000000`, `/dev/zero`) never had such a file.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from icf.errors import FormatError

_LINE = re.compile(
    rb"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-][w-][x-][ps]) ([0-9a-f]{1,16}) ([0-9a-f]{2,3}):([0-9a-f]{2,5}) (\d{1,20})"
    rb"(?: +(.*)| *)"
)
_DELETED = " (deleted)"
VDSO = "[vdso]"


class Mapping(NamedTuple):
    """A line: the bytes from `start` to `end` come from `offset` of a file, or from none."""

    start: int
    end: int
    rights: str  # "r-xp": read, write, execute, private or shared
    offset: int
    device: int  # as `os.makedev` has it; not the device that `stat` returns on btrfs and overlays
    inode: int  # 0: from no file
    path: str

    @property
    def is_executable(self) -> bool:
        return self.rights[2] == "x"

    @property
    def file_id(self) -> tuple[int, int]:
        """Identifies a file while it is open or mapped; then no other file can get its inode number."""
        return self.device, self.inode

    @property
    def is_of_file(self) -> bool:
        """Whether it comes from a file that has, or had, a path."""
        return self.inode != 0 and self.path.startswith("/")

    @property
    def path_once(self) -> str:
        """The path of the file, even if the file no longer exists."""
        return self.path.removesuffix(_DELETED)


def parse_maps(text: bytes, path: str) -> list[Mapping]:
    """Return the mappings, ascending. Raise FormatError for a line that the kernel would not write."""
    mappings: list[Mapping] = []
    offset = end = 0
    for line in text.split(b"\n"):
        if line:
            mapping = parse_mapping(line)
            if mapping is None or mapping.start < end or mapping.end <= mapping.start:
                raise FormatError(path, "maps", offset, f"{line[:80]!r} is not a mapping above those before it")
            end = mapping.end
            mappings.append(mapping)
        offset += len(line) + 1
    return mappings


def parse_mapping(line: bytes) -> Mapping | None:
    """Return the mapping of a line; None if the kernel would not write it."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    start, end, rights, offset, major, minor, inode, path = match.groups()
    return Mapping(
        int(start, 16),
        int(end, 16),
        rights.decode(),
        int(offset, 16),
        os.makedev(int(major, 16), int(minor, 16)),
        int(inode),
        os.fsdecode((path or b"").replace(b"\\012", b"\n")),
    )
