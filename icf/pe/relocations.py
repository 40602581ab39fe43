"""The base relocations of a PE image: where it has addresses, to which the loader adds the bias.

    block    u32 RVA of a page, u32 bytes of the block with its head, then u16 each: offset in the page, type << 12

Source: Microsoft, "PE Format", The .reloc Section.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from icf.columns import U64
from icf.errors import FormatError
from icf.pe.headers import BASE_RELOCATIONS
from icf.reader import Reader

if TYPE_CHECKING:
    from icf.pe.image import PeImage

_DIR64 = 10  # the word of 64 bits
_HEAD_BYTES, _ENTRY_BYTES, _OFFSET_BITS = 8, 2, 12


def pointer_places(image: PeImage) -> U64:
    """Return where the words of 64 bits are that hold addresses, ascending; none of an image that cannot be moved.

    Raises:
        FormatError: the table breaks the format.
    """
    directory = image.headers.directory(BASE_RELOCATIONS)
    content = image.read(image.base + directory.rva, directory.size_bytes) if directory.rva else memoryview(b"")
    refuse = partial(FormatError, image.path, "base relocations")
    if len(content) < directory.size_bytes:
        raise refuse(0, f"{directory.size_bytes} bytes at RVA {directory.rva:#x} are not in a section")
    reader = Reader(content, image.path, "base relocations")
    found = [np.empty(0, np.uint64)]
    while reader.remaining:
        at, page, size_bytes = reader.pos, reader.u32(), reader.u32()
        if size_bytes < _HEAD_BYTES or size_bytes % _ENTRY_BYTES:
            raise refuse(at, f"a block of {size_bytes} bytes, must be an even number from {_HEAD_BYTES} on")
        entries = np.frombuffer(reader.take(size_bytes - _HEAD_BYTES), "<u2").astype(np.uint64)
        is_word = entries >> np.uint64(_OFFSET_BITS) == _DIR64
        found.append((entries[is_word] & np.uint64((1 << _OFFSET_BITS) - 1)) + np.uint64(page + image.base))
    return np.unique(np.concatenate(found))
