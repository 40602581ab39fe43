"""The sections that name another file, byte by byte."""

from __future__ import annotations

import zlib

import pytest

from icf.debugfiles.links import SupplementaryLink, checksum_of, crc_of, parse_debuglink, parse_supplementary
from icf.errors import FormatError
from tests.support.debug_links import ALTLINK, IS_SUP, PADDED, SUP
from tests.support.dwarf_units import image_of

DEBUGLINK = bytes.fromhex(
    "61 2e 64 65 62 75 67 00"  # "a.debug"
    "78563412"  # CRC
)


def test_a_debug_link() -> None:
    link = parse_debuglink(image_of({".gnu_debuglink": DEBUGLINK}))
    assert link is not None and (link.name, link.crc, link.crc_offset) == ("a.debug", 0x12345678, 8)
    padded = parse_debuglink(image_of({".gnu_debuglink": PADDED}))
    assert padded is not None and (padded.name, padded.crc, padded.crc_offset) == ("ab.debug", 0x12345678, 12)
    assert parse_debuglink(image_of({})) is None


@pytest.mark.parametrize("size_bytes", range(1, len(PADDED)))
def test_every_truncated_debug_link_is_refused(size_bytes: int) -> None:
    with pytest.raises(FormatError, match=r"\.gnu_debuglink\+0x[0-9a-f]+: (string has no|needs 4 bytes)"):
        parse_debuglink(image_of({".gnu_debuglink": PADDED[:size_bytes]}))


@pytest.mark.parametrize("name", [b"", b"../a.debug", b"/etc/passwd"])
def test_a_debug_link_names_a_file_and_no_path(name: bytes) -> None:
    with pytest.raises(FormatError, match="is not a file name"):
        parse_debuglink(image_of({".gnu_debuglink": name + b"\0" * 12}))


def test_supplementary_links_of_both_kinds() -> None:
    assert parse_supplementary(image_of({".gnu_debugaltlink": ALTLINK})) == SupplementaryLink(
        "../x.sup", b"\xab\xcd\xef"
    )
    assert parse_supplementary(image_of({".debug_sup": SUP})) == SupplementaryLink("x.sup", b"\xab\xcd\xef")
    assert parse_supplementary(image_of({".debug_sup": IS_SUP})) is None
    assert parse_supplementary(image_of({})) is None
    assert checksum_of(image_of({".debug_sup": IS_SUP})) == b"\xab\xcd\xef"


@pytest.mark.parametrize("size_bytes", range(1, len(SUP)))
def test_every_truncated_debug_sup_is_refused(size_bytes: int) -> None:
    with pytest.raises(FormatError, match=r"\.debug_sup\+0x[0-9a-f]+: (string has no|needs )"):
        parse_supplementary(image_of({".debug_sup": SUP[:size_bytes]}))


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        (b"\x04\x00" + SUP[2:], "version 4, must be 5"),
        (b"\x05\x00\x02" + SUP[3:], "is_supplementary is 2, must be 0 or 1"),
        (b"\x05\x00\x00\x00\x00", "no file name"),
    ],
)
def test_a_debug_sup_that_breaks_a_rule(contents: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        parse_supplementary(image_of({".debug_sup": contents}))


def test_the_crc_is_the_usual_one() -> None:
    data = bytes(range(256)) * 1000
    assert crc_of(memoryview(data)) == zlib.crc32(data)
