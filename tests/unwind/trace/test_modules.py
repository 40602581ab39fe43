"""The list of modules: rows with bytes of any kind in them, of three versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.errors import FormatError
from unwind.samples.recording import Base, RecordedModule
from unwind.trace.modules import find_modules, parse_modules

BLOB = b"\n1, 2,\0\n, 0x"
VERSION_5 = (
    b"Module Table: version 5, count 4\n"
    b"Columns: id, containing_id, start, end, entry, offset, preferred_base, (custom fields), path\n"
    b"  0,   0, 0x00007f0000000000, 0x00007f0000001000, 0x0, 0000000000000000, 0x0000000000000000, v#1,0, /bin/shop\n"
    b"  1,   0, 0x00007f0000001000, 0x00007f0000004000, 0x0, 0000000000001000, 0x0000000000001000, v#1,0, /bin/shop\n"
    b"  2,   2, 0x00007fff00000000, 0x00007fff00002000, 0x0, 0000000000000000, 0x0000000000000000, v#1,%d,"
    % len(BLOB)
    + BLOB
    + b" [vdso]\n"
    b"  3,   3, 0x0000000000400000, 0x0000000000401000, 0x0, 0000000000000000, 0x0000000000400000, v#1,0, /bin/a, b\n"
)
VERSION_3 = (
    b"Module Table: version 3, count 1\nColumns: id, containing_id, start, end, entry, path\n"
    b" 0, 0, 0x400000, 0x401000, 0x0, /bin/shop\n"
)


def test_modules_are_read() -> None:
    assert parse_modules(VERSION_5, "m").modules == [
        RecordedModule("/bin/shop", b"", Base.RUN_TIME, 0x7F0000000000, 0x7F0000004000, 0),
        RecordedModule("[vdso]", b"", Base.RUN_TIME, 0x7FFF00000000, 0x7FFF00002000, 0),
        RecordedModule("/bin/a, b", b"", Base.RUN_TIME, 0x400000, 0x401000, 0),
    ]
    assert [each.path for each in parse_modules(VERSION_3, "m").modules] == ["/bin/shop"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            b"version 5",
            b"version 6",
            "m: module table+0x0: does not begin with 'Module Table: version V', V from 3 to 5",
        ),
        (b"0x00007f0000001000, 0x0,", b"0x00006f0000001000, 0x0,", "ends at 0x6f0000001000, before its start"),
        (b"v#1,%d," % len(BLOB), b"v#1,99999,", "99999 bytes of a custom field are not there"),
        (b"  3,   3,", b"  3;   3,", "a row needs 7 numbers, the one with index 0 is missing"),
    ],
)
def test_damage_is_named(old: bytes, new: bytes, message: str) -> None:
    assert old in VERSION_5
    with pytest.raises(FormatError) as caught:
        parse_modules(VERSION_5.replace(old, new, 1), "m")
    assert message in str(caught.value)


def test_every_truncation_is_read_or_refused() -> None:
    for size in range(len(VERSION_5)):
        try:
            parse_modules(VERSION_5[:size], "m")
        except FormatError as error:
            assert str(error).startswith("m: module table+0x")


def test_the_list_is_found_beside_the_trace(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "raw").mkdir()
    trace, listed = tmp_path / "trace" / "a.trace.zip", tmp_path / "raw" / "modules.log"
    trace.touch()
    assert find_modules(str(tmp_path)) is find_modules(str(trace)) is None
    listed.touch()
    assert find_modules(str(tmp_path)) == find_modules(str(trace)) == str(listed)
    window = trace.parent / "window.0000"
    window.mkdir()
    assert find_modules(str(window)) == find_modules(str(window / "a.trace.zip")) == str(listed)
