"""Which build a file is of: the build id that its linker has written, and what is recorded in its place.

perf fills build ids up to 20 bytes with zeros, and cuts longer ones. Minidumps of earlier Breakpads have 16 bytes of
each. Of an image without a build id, writers of minidumps make one from the file:

    Breakpad   16 bytes: the exclusive or of the first 4096 bytes of .text
    lldb        4 bytes: the CRC-32 of the file, least significant byte first

A made id shows that a file is another one. That it is the same needs more, as most of the code is not in Breakpad's.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icf.elf.image import Image

CUT_BYTES = 16
_CRC_BYTES = 4
_HASHED_BYTES = 4096


def is_build(recorded: bytes, found: bytes) -> bool:
    """Return whether a recorded build id is that of an image, filled up with zeros or cut."""
    if not found or not recorded.startswith(found):
        return len(recorded) >= CUT_BYTES and found.startswith(recorded)
    return not any(recorded[len(found) :])


def is_of_build(image: Image, recorded: bytes) -> bool:
    """Return whether an image has a recorded build id, or the id that was made for want of one."""
    return is_build(recorded, image.build_id) or _is_made_id(recorded, image)


def _is_made_id(recorded: bytes, image: Image) -> bool:
    if image.build_id:
        return False
    if len(recorded) == _CRC_BYTES:
        return zlib.crc32(image.data[:]).to_bytes(_CRC_BYTES, "little") == recorded
    text = image.named(".text")
    if len(recorded) != CUT_BYTES or text is None:
        return False
    start, end = image.extent(text)
    hashed = 0
    for at in range(start, min(end, start + _HASHED_BYTES), CUT_BYTES):  # the last part may end outside of .text
        hashed ^= int.from_bytes(image.data[at : at + CUT_BYTES], "little")
    return hashed.to_bytes(CUT_BYTES, "little") == recorded
