"""Kept links whose checksum fits what is wrong with them: each is refused, or has pieces inside of its files."""

from __future__ import annotations

import random
from hashlib import sha256

import pytest

from linkpass.link.kept_link import KeptLink, Seen
from linkpass.rewrite.layout import Layout, Piece
from tests.fuzz.limits import many

COUNT = many(3000)
MAGIC_BYTES, DIGEST_BYTES = 11, 32


@pytest.fixture(scope="module")
def kept() -> KeptLink:
    pieces = (Piece(0, 4096, None, 0), Piece(4096, 3, b"abc"), Piece(4100, 900, None, 4096), Piece(0, 4, b"\x7fELF"))
    files = {"a.o": Seen("1-2-3-4-5", ""), "b\udcff.o": Seen("", "00" * 32)}
    return KeptLink(("a.o", "b\udcff.o"), files, "12", "34", 5000, Layout(pieces, 5000), ("one", "two"), ("note",))


def sealed(rest: bytes) -> bytes:
    return b"icf link 1\n" + sha256(rest).digest() + rest


def test_what_is_written_is_read(kept: KeptLink) -> None:
    assert KeptLink.parse(kept.to_bytes()) == kept


def test_every_truncation_is_refused(kept: KeptLink) -> None:
    whole = kept.to_bytes()
    rest = whole[MAGIC_BYTES + DIGEST_BYTES :]
    for size_bytes in range(len(whole)):
        with pytest.raises(ValueError, match="damaged"):
            KeptLink.parse(whole[:size_bytes])
    for size_bytes in range(len(rest)):
        with pytest.raises(ValueError):
            KeptLink.parse(sealed(rest[:size_bytes]))


def test_hostile_contents_name_no_byte_outside_of_their_files(kept: KeptLink) -> None:
    rest, rng = kept.to_bytes()[MAGIC_BYTES + DIGEST_BYTES :], random.Random(14)
    read = 0
    for _ in range(COUNT):
        changed = bytearray(rest)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.choice(b'0159-,.[]{}"eEntrfx\x00\xff')
        try:
            found = KeptLink.parse(sealed(bytes(changed)))
        except ValueError:
            continue
        read += 1
        assert found.layout.size_bytes <= found.image_bytes + (len(found.layout.pieces) + 1 << 20)
        for piece in found.layout.pieces:
            assert 0 <= piece.offset <= piece.offset + piece.size_bytes <= found.layout.size_bytes
            if piece.content is None:
                assert 0 <= piece.source_offset <= piece.source_offset + piece.size_bytes <= found.image_bytes
            else:
                assert len(piece.content) == piece.size_bytes
    assert COUNT // 20 < read < COUNT
