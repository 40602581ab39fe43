"""Sections that tie an image to the files of its debug information: they name a file, and how to recognize it.

    .note.gnu.build-id   the same bytes in the image and in each file made from it
    .gnu_debuglink       the debug file: name, NUL, padding to 4 bytes, CRC-32 of the whole file
    .gnu_debugaltlink    the supplementary file, with what `dwz -m` found in several files: name, NUL, build id
    .debug_sup           the same in DWARF 5 (7.3.6): version 5, a byte (0: refers, 1: is the file), name, checksum

A build id shows from which link a file is, a CRC that it has not changed since.
"""

from __future__ import annotations

import os
import zlib
from typing import NamedTuple

from icf.elf.image import Image
from icf.filebytes import FileBytes
from icf.reader import Reader

DEBUGLINK, ALTLINK, SUP = ".gnu_debuglink", ".gnu_debugaltlink", ".debug_sup"
_CRC_STEP_BYTES = 1 << 20


class DebugLink(NamedTuple):
    """`.gnu_debuglink`."""

    name: str
    crc: int
    crc_offset: int  # in the section


class SupplementaryLink(NamedTuple):
    """`.gnu_debugaltlink`, or a `.debug_sup` that refers to a file."""

    path: str  # relative to the directory of the file that has the link, or absolute
    checksum: bytes  # the file's build id, or the checksum in its own .debug_sup


def parse_debuglink(image: Image) -> DebugLink | None:
    """Return the debug link of an image, None if it has none."""
    contents = image.contents(DEBUGLINK)
    if not len(contents):
        return None
    reader = Reader(contents, image.path, DEBUGLINK)
    name = reader.cstring()
    if not name or b"/" in name:
        raise reader.error(f"{name!r} is not a file name", 0)
    reader.pos = -(-reader.pos // 4) * 4
    crc_offset = reader.pos
    return DebugLink(os.fsdecode(name), reader.u32(), crc_offset)


def parse_supplementary(image: Image) -> SupplementaryLink | None:
    """Return the supplementary file that the debug information of `image` refers to, None if it needs none."""
    contents = image.contents(ALTLINK)
    if len(contents):
        reader = Reader(contents, image.path, ALTLINK)
        path = reader.cstring()
        checksum = bytes(reader.take(reader.remaining))
    else:
        contents = image.contents(SUP)
        if not len(contents):
            return None
        is_supplementary, path, checksum = _parse_sup(Reader(contents, image.path, SUP))
        if is_supplementary:
            return None
        reader = Reader(contents, image.path, SUP)
    if not path:
        raise reader.error("no file name", 0)
    return SupplementaryLink(os.fsdecode(path), checksum)


def checksum_of(image: Image) -> bytes:
    """Return the checksum that references to a supplementary file carry: that of its `.debug_sup`, or its build id."""
    contents = image.contents(SUP)
    if len(contents):
        is_supplementary, _, checksum = _parse_sup(Reader(contents, image.path, SUP))
        if is_supplementary:
            return checksum
    return image.build_id


def _parse_sup(reader: Reader) -> tuple[bool, bytes, bytes]:
    version = reader.u16()
    if version != 5:
        raise reader.error(f"version {version}, must be 5", 0)
    is_supplementary = reader.u8()
    if is_supplementary > 1:
        raise reader.error(f"is_supplementary is {is_supplementary}, must be 0 or 1", 2)
    path = reader.cstring()
    return bool(is_supplementary), path, bytes(reader.take(reader.uleb()))


def crc_of(data: memoryview | FileBytes) -> int:
    """Return the CRC-32 of a whole file, as `.gnu_debuglink` has it."""
    crc = 0
    for piece in data.pieces(_CRC_STEP_BYTES) if isinstance(data, FileBytes) else [data]:
        crc = zlib.crc32(piece, crc)
    return crc
