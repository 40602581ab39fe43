"""Contents that stay in the file: slices, changes, and strings that are read some at a time."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from icf.contents import Contents, string_at
from icf.errors import FormatError
from icf.filebytes import FileBytes
from icf.strings import hash_table, string_parts


def in_file(tmp_path: Path, data: bytes) -> Contents:
    """These bytes as a part of a file."""
    path = tmp_path / "file"
    path.write_bytes(b"before" + data + b"after")
    return Contents.of_file(FileBytes.open(str(path)), 6, 6 + len(data))


def test_slices_are_those_of_the_part(tmp_path: Path) -> None:
    data = bytes(range(100))
    for contents in (in_file(tmp_path, data), Contents(memoryview(data))):
        assert len(contents) == 100
        for part in (slice(None), slice(3, 7), slice(90, 200), slice(200, 300), slice(9, 3), slice(-1, None)):
            assert bytes(contents[part]) == data[part]
        assert [(start, bytes(piece)) for start, piece in contents.pieces(40, 3)] == [
            (0, data[:43]),
            (40, data[40:83]),
            (80, data[80:]),
        ]


def test_a_change_is_in_every_slice(tmp_path: Path) -> None:
    def edit(room: memoryview, start: int) -> None:
        for at in range(len(room)):
            room[at] = (start + at) * 2

    for contents in (in_file(tmp_path, bytes(50)), Contents(memoryview(bytes(50)))):
        edited = contents.edited(edit)
        assert bytes(edited[10:13]) == bytes((20, 22, 24)) and edited.in_memory is None
        assert bytes(contents[10:13]) == bytes(3)


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    contents = in_file(tmp_path, bytes(100))
    (tmp_path / "file").write_bytes(bytes(50))
    assert bytes(contents[0:10]) == bytes(10)
    with pytest.raises(FormatError, match=r"file: file\+0x32: was truncated while being read"):
        contents[0:100]


def test_a_string_ends_with_its_nul() -> None:
    long = b"x" * 1000
    data = b"main\0\0" + long + b"\0open"
    assert [string_at(data, at) for at in (0, 1, 4, 5, 6)] == [b"main", b"ain", b"", b"", long]
    assert [string_at(data, at) for at in (len(data) - 4, len(data), 1 << 60)] == [None, None, None]


@pytest.mark.parametrize("seed", range(4))
def test_strings_that_are_read_together_are_those_of_the_section(tmp_path: Path, seed: int) -> None:
    """Some close to each other, some far apart, some longer than what is read at first; the last has no end."""
    rng = random.Random(seed)
    sizes = [0, 1, 20, 255, 256, 257, 2000, 5000]
    data = b"\0".join(rng.randbytes(rng.choice(sizes)).replace(b"\0", b"-") for _ in range(400)) + b"\0last"
    offsets = np.array(sorted(rng.randrange(len(data) + 100) for _ in range(300)), np.uint64)
    contents, seen = in_file(tmp_path, data), 0
    expected = hash_table(memoryview(data), offsets)
    for part, buffer, starts in string_parts(contents, offsets):
        assert part.start == seen
        seen = part.stop
        assert hash_table(buffer, starts).tolist() == expected[part].tolist()
        strings = [string_at(data, at) for at in offsets[part].tolist()]
        assert [string_at(buffer, at) for at in starts.tolist()] == strings
    assert seen == len(offsets)
    assert not list(string_parts(contents, offsets[:0]))


def test_only_the_parts_that_are_asked_for_are_read(tmp_path: Path) -> None:
    data = bytes(range(1, 101))
    view = in_file(tmp_path, data).only([(3, 5), (98, 100)])
    assert view == bytes(3) + data[3:5] + bytes(93) + data[98:] and view.readonly
    assert Contents(memoryview(data)).only([(3, 5)]) == data


@pytest.mark.parametrize("part", ((90, 200), (300, 400), (7, 3), (1 << 63, 1 << 64)))
def test_of_a_part_that_leaves_the_section_the_inside_is_read(tmp_path: Path, part: tuple[int, int]) -> None:
    data = bytes(range(1, 101))
    view = in_file(tmp_path, data).only([part])
    read = data[part[0] : part[1]]
    assert view == bytes(100 - len(read)) + read
