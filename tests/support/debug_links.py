"""Sections that name a debug file or a supplementary file."""

from __future__ import annotations

PADDED = bytes.fromhex(
    "61 62 2e 64 65 62 75 67 00"  # "ab.debug"
    "000000"  # to 4 bytes
    "78563412"  # CRC
)


ALTLINK = b"../x.sup\0" + bytes.fromhex("abcdef")  # path, build id


SUP = bytes.fromhex(
    "0500"  # version
    "00"  # refers to a file
    "78 2e 73 75 70 00"  # "x.sup"
    "03 abcdef"  # checksum
)


IS_SUP = bytes.fromhex("0500 01 00 03 abcdef")
