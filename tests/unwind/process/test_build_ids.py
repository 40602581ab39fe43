"""Build ids as they are recorded, and what is recorded of files that have none."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.support.elf import Elf, Part
from unwind.process.build_ids import is_build, is_of_build


def test_build_ids_may_be_filled_up_with_zeros() -> None:
    assert is_build(b"\1\2\0\0", b"\1\2") and is_build(b"\1\2", b"\1\2")
    assert not is_build(b"\1\2\3", b"\1\2") and not is_build(b"", b"") and not is_build(b"\1", b"")


def test_build_ids_may_be_cut_to_16_bytes() -> None:
    build_id = bytes(range(1, 21))
    assert is_build(build_id[:16], build_id) and is_build(build_id, build_id)
    assert not is_build(build_id[:15], build_id)
    assert not is_build(build_id[:15] + b"\0", build_id) and not is_build(build_id[:16], b"")


@pytest.mark.parametrize("size_bytes", [1, 32, 40, 4096, 5000])
def test_what_breakpad_and_lldb_make_of_a_file(size_bytes: int, tmp_path: Path) -> None:
    """Breakpad takes 16 bytes at a time, the last ones past the end of .text."""
    path = tmp_path / "shop"
    text = bytes(number % 251 for number in range(size_bytes))
    path.write_bytes(Elf([Part(".text", content=text, vaddr=0x1000, flags=6)]).build())
    with Image.open(str(path)) as image:
        section = image.named(".text")
        assert section is not None
        expected = [0] * 16
        for at in range(0, min(size_bytes, 4096), 16):
            part = path.read_bytes()[section.offset + at : section.offset + at + 16]
            expected = [one ^ other for one, other in zip(expected, part, strict=True)]
        assert is_of_build(image, bytes(expected))
        assert not is_of_build(image, bytes([*expected[:15], expected[15] ^ 1]))
        checksum = zlib.crc32(path.read_bytes())
        assert is_of_build(image, checksum.to_bytes(4, "little"))
        assert not is_of_build(image, checksum.to_bytes(4, "big")) and not is_of_build(image, b"")
