"""Lines of /proc/PID/maps in all their spellings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from icf.errors import FormatError
from unwind.process.maps import Mapping, parse_maps

LINES = b"""\
00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/dbus-daemon
01e3b000-01e5c000 rw-p 00000000 00:00 0           [heap]
7f0000000000-7f0000001000 rwxp 00000000 00:00 0\x20
7f0000001000-7f0000002000 r-xp 00000000 fe:10 42                          /a dir/lib x.so (deleted)
7f0000002000-7f0000003000 r-xs 00000000 00:01 2049                        /memfd:doublemapper (deleted)
7f0000003000-7f0000004000 r--p 00000000 08:02 7                           /one\\012line
7f0000004000-7f0000005000 rw-s 00000000 00:0e 1031                        anon_inode:[perf_event]
7f0000005000-7f0000006000 r-xp 00000000 00:00 0                           [vdso]
7f0000006000-7f0000007000 rw-p 00000000 00:00 0                           [anon:stack: x]
7f0000007000-7f0000008000 r--p 00000000 08:02 8                           /\xff\xfe
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                   [vsyscall]
"""


def test_each_spelling() -> None:
    mappings = parse_maps(LINES, "maps")
    assert mappings[0] == Mapping(0x400000, 0x452000, "r-xp", 0x1000, os.makedev(8, 2), 173521, "/usr/bin/dbus-daemon")
    assert [m.path for m in mappings[1:9]] == [
        "[heap]",
        "",
        "/a dir/lib x.so (deleted)",
        "/memfd:doublemapper (deleted)",
        "/one\nline",
        "anon_inode:[perf_event]",
        "[vdso]",
        "[anon:stack: x]",
    ]
    assert mappings[3].path_once == "/a dir/lib x.so" and mappings[3].device == os.makedev(0xFE, 0x10)
    assert os.fsencode(mappings[9].path) == b"/\xff\xfe"
    assert [m.is_of_file for m in mappings] == [True, False, False, True, True, True, False, False, False, True, False]
    assert [m.is_executable for m in mappings] == [
        True,
        False,
        True,
        True,
        True,
        False,
        False,
        True,
        False,
        False,
        True,
    ]
    assert mappings[-1].end == 0xFFFFFFFFFF601000


@pytest.mark.parametrize(
    "line",
    [
        b"nothing",
        b"2000-1000 r-xp 0 8:2 1 /a",
        b"1000-2000 r-xp 00000000 08:02 x /a",
        b"1000-2000 xr-p 00000000 08:02 1 /a",
        b"1000-2000 r-xp 00000000 80000000:02 1 /a",
    ],
)
def test_other_lines_are_refused(line: bytes) -> None:
    with pytest.raises(FormatError, match=r"maps\+0x47: .* is not a mapping above those before it"):
        parse_maps(LINES[:71] + line + b"\n", "maps")


def test_mappings_ascend() -> None:
    with pytest.raises(FormatError, match="not a mapping above"):
        parse_maps(LINES + LINES, "maps")


def test_those_of_this_process() -> None:
    text = Path("/proc/self/maps").read_bytes()
    mappings = parse_maps(text, "maps")
    assert len(mappings) == text.count(b"\n") > 10
    code = next(m for m in mappings if m.is_executable and m.is_of_file)
    assert os.stat(code.path).st_ino == code.inode
