"""The file of a symcache: what goes in comes out, and nothing is given that was not written."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from icf.errors import FormatError
from unwind.symcache.format.container import BLOCK_BYTES, COMPLETE, Container, Head, Identity, pack

HEAD = Head(Identity(1, b"\x91\xab"), bytes(range(16)), 62, COMPLETE)
ORIGIN = {"path": "/bin/shop"}
SECTIONS = {"starts": b"\1\2\3\4" * 9, "empty": b"", "records": bytes(range(256)) * 200}
SMALL = bytes.fromhex(
    "49434653594d4300"  # 0    magic
    "08000000 04030201"  # 8   version, byte-order mark
    "01000000 3e000000"  # 16  flags: complete; machine x86-64
    "b000000000000000"  # 24   size of the file
    "01000000 08000000"  # 32  sections, size of the origin
    "000102030405060708090a0b0c0d0e0f"  # 40  content check
    "01 02 91ab"  # 56         identity: a build id of 2 bytes
    + "00"
    * 60
    + "00000000"  # 120        checksum of the head
    "01000000"  # 124          blocks
    "7b7d202020202020"  # 128  origin
    "6e616d6573000000"  # 136  section `names`
    "a800000000000000 0500000000000000"  # 144  offset, size
    "0000000000000000"  # 160  checksums, padded
    "6d61696e00000000"  # 168  data
)


def packed(head: Head = HEAD, sections: dict[str, bytes] = SECTIONS, origin: dict[str, str] = ORIGIN) -> bytes:
    return b"".join(pack(head, sections, origin))


def opened(data: bytes) -> Container:
    return Container(memoryview(data), "a.symcache")


def with_new_sum(data: bytes) -> bytes:
    """The same with a checksum of the head that fits."""
    first = 128 + int.from_bytes(data[36:40], "little") + 24 * int.from_bytes(data[32:36], "little")
    first += -(-4 * int.from_bytes(data[124:128], "little") // 8) * 8
    checksum = zlib.crc32(data[124:first], zlib.crc32(data[:120]))
    return data[:120] + checksum.to_bytes(4, "little") + data[124:]


def test_the_layout() -> None:
    data = packed(HEAD, {"names": b"main\0"}, {})
    assert data[:120] + bytes(4) + data[124:160] + bytes(4) + data[164:] == SMALL
    assert int.from_bytes(data[120:124], "little") == zlib.crc32(data[124:168], zlib.crc32(data[:120]))
    assert int.from_bytes(data[160:164], "little") == zlib.crc32(b"main\0\0\0\0")


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(packed())
    read = Container.open(path)
    assert read.head == HEAD and read.origin == ORIGIN and str(read.head.identity) == "build-id-91ab"
    assert read.names == tuple(SECTIONS) and read.size_bytes == path.stat().st_size
    for name, content in SECTIONS.items():
        assert read.section(name) == content and read.section_size_bytes(name) == len(content) and name in read
    assert read.piece("records", 20_000, 300) == SECTIONS["records"][20_000:20_300]
    assert read.section("starts").cast("I")[8] == 0x04030201  # aligned
    assert len(read.section("none")) == 0 and "none" not in read
    assert packed() == packed()


@pytest.mark.parametrize(("start", "size_bytes"), [(-1, 1), (0, 51_201), (51_200, 1), (0, -1), (1 << 64, 1)])
def test_pieces_outside_of_a_section(start: int, size_bytes: int) -> None:
    with pytest.raises(FormatError, match=r"a\.symcache: records\+.*: needs -?\d+ bytes, the section has 51200"):
        opened(packed()).piece("records", start, size_bytes)


def test_every_truncation_is_refused() -> None:
    data = packed(sections={"names": b"main\0"})
    for size_bytes in range(len(data)):
        with pytest.raises(FormatError, match=r"a\.symcache: head\+0x"):
            opened(data[:size_bytes])
    with pytest.raises(FormatError, match="was written with"):
        opened(data + bytes(8))


def test_a_file_that_is_too_short_to_map(tmp_path: Path) -> None:
    for content in (b"", packed()[:127]):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(FormatError, match=f"too small to be a symcache .{len(content)} bytes"):
            Container.open(tmp_path / "file")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(FormatError, match="too small to be a symcache .[0-9]+ bytes"):
            Container.open(path)
    with pytest.raises(FileNotFoundError):
        Container.open(tmp_path / "none")


@pytest.mark.parametrize(
    ("at", "value", "problem"),
    [
        (0, b"X", r"head\+0x0: is not a symcache"),
        (8, b"\1", r"head\+0x8: version is 1, only 8 is known"),
        (8, b"\0", r"head\+0x8: version is 0, only 8 is known"),
        (12, b"\1\2\3\4", r"head\+0xc: byte order is not that of this machine"),
        (32, b"\xff\xff\xff\xff", r"head\+0x20: counts are not those of a symcache"),
        (36, b"\xff\xff\xff\x7f", r"head\+0x20: counts are not those of a symcache"),
        (36, b"\x19", r"head\+0x20: counts are not those of a symcache"),  # not padded
        (57, b"\x3f", r"head\+0x20: counts are not those of a symcache"),  # an identity of 63 bytes
        (124, b"\x7f\xff\xff\xff", r"head\+0x7c: 4294967167 blocks are not what is in the file"),
    ],
)
def test_heads_that_are_refused(at: int, value: bytes, problem: str) -> None:
    data = packed()
    with pytest.raises(FormatError, match=problem):
        opened(data[:at] + value + data[at + len(value) :])


def test_well_summed_heads_that_are_refused() -> None:
    data = packed(origin={})
    for at, value, problem in (
        (136 + 8, b"\1", "section is not in the file"),  # not aligned
        (136 + 8, bytes(8), "section is not in the file"),  # in the head
        (136 + 16, b"\xff" * 8, "section is not in the file"),
        (136 + 8, b"\xf8" + b"\xff" * 7, "section is not in the file"),
        (128, b"[]", "origin is not a JSON object"),
        (128, b"{{", "origin is not a JSON object"),
        (128, b"\xff\xff", "origin is not a JSON object"),
    ):
        with pytest.raises(FormatError, match=problem):
            assert opened(with_new_sum(data[:at] + value + data[at + len(value) :])).origin


def test_a_flipped_bit_is_never_read() -> None:
    """Either the file is refused, or what it says is what was written, or the section is refused."""
    data, chance, refused = packed(), random.Random(5), 0
    for _ in range(3000):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            read = opened(bytes(changed))
        except FormatError:
            refused += 1
            continue
        assert read.head == HEAD and read.names == tuple(SECTIONS)
        damaged = 0
        for name, content in SECTIONS.items():
            try:
                assert read.section(name) == content
            except FormatError as error:
                assert "checksum of the block does not fit: the file is damaged" in str(error)
                damaged += 1
        assert damaged
        with pytest.raises(FormatError):
            read.check_all()
    assert refused > 5


def test_a_block_is_checked_when_it_is_read() -> None:
    data = bytearray(packed())
    data[-1] ^= 1  # in the last block
    read = opened(bytes(data))
    assert read.piece("records", 0, 100) == SECTIONS["records"][:100]
    with pytest.raises(FormatError, match=r"records\+0x[0-9a-f]+: checksum of the block does not fit"):
        read.piece("records", 51_199, 1)


@pytest.mark.parametrize("size_bytes", [0, 200, 20_000])
def test_a_file_that_is_cut_short_while_it_is_open(size_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(packed())
    read = Container.open(path)
    before = read.piece("records", 0, 100)
    os.truncate(path, size_bytes)
    assert before == read.piece("records", 0, 100) == SECTIONS["records"][:100]  # what was read stays
    with pytest.raises(FormatError, match=rf"^{path}: file\+0x[0-9a-f]+: was truncated while being read$"):
        read.section("records")


def test_damage_is_repaired_by_a_file_of_the_same_content() -> None:
    good = packed(origin={"path": "somewhere else, with a longer name"})
    bad = bytearray(packed())
    bad[-BLOCK_BYTES:] = bytes(BLOCK_BYTES)
    for replacement, is_used in (
        (lambda: opened(good), True),
        (lambda: opened(packed(HEAD._replace(content_check=bytes(16)))), False),
        (lambda: opened(packed(sections=SECTIONS | {"starts": b"\0" * 36})), False),
        (lambda: opened(bytes(bad)), False),
        (lambda: None, False),
    ):
        repair: Callable[[], Container | None] = replacement
        read = opened(bytes(bad))
        assert read.section("starts") == SECTIONS["starts"]
        read.repair = repair
        if is_used:
            assert read.section("records") == SECTIONS["records"] and read.section("starts") == SECTIONS["starts"]
        else:
            with pytest.raises(FormatError, match="the file is damaged"):
                read.section("records")


def test_what_does_not_fit_is_not_written() -> None:
    with pytest.raises(ValueError, match="longer than 8 bytes"):
        packed(sections={"ninebytes": b""})
    with pytest.raises(ValueError, match="do not fit the head"):
        packed(HEAD._replace(identity=Identity(1, bytes(63))))
    with pytest.raises(ValueError, match="do not fit the head"):
        packed(HEAD._replace(content_check=b""))
    with pytest.raises(ValueError, match="origin is too long"):
        packed(origin={"path": "x" * (1 << 20)})
