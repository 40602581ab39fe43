"""The side table of a PE image: a file `.icf` next to its PDB with the tables that an ELF image has as sections.

    magic       8 bytes, "icf-pe\\0\\2"
    GUID        16 bytes, as the image has it
    age         u32
    sizes       3 x u64: bytes of .debug_icf, .debug_dcall and .debug_vcall, which follow in this order

The formats of the three are those of sections in ELF images. In place of an offset of a DIE they have the number of a
record in the PDB: stream << 32 | offset. A PDB cannot have sections of other tools, and a rewritten one would not be
what a symbol server keeps.

Of an image with DWARF and no PDB it is next to the image. It has DIEs, of a member without one a number from 1 << 40
on. In place of GUID and age, which such images may lack, it has u32 time stamp and u32 size of the image, and 12 bytes
of the SHA-256 of GUID and age: so none is taken for that of a PDB.

Files with "\\1" are read, too: they have neither marks nor vftables, and not all jumps that leave a function.
"""

from __future__ import annotations

import os
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Self

from icf.errors import FormatError
from icf.filebytes import FileBytes
from icf.log import warn

if TYPE_CHECKING:
    from icf.pe.image import PeImage

MAGIC, _WITHOUT_POINTERS = b"icf-pe\0\2", b"icf-pe\0\1"
SUFFIX = ".icf"
PASS_HINT = "run 'icf pass IMAGE --objects FILE...' with the objects and libraries of the link"
_HEADER = Struct("<8s20s3Q")
_WITH_DWARF, _DIGEST_BYTES = Struct("<II12s"), 12
_PLACE = "side table"
KEY_BYTES = 20


class SideTable(NamedTuple):
    """The three tables, and the GUID and age of the image that they are about."""

    key: bytes
    icf: bytes
    dcall: bytes
    vcall: bytes
    has_pointers: bool = True  # and every jump that leaves a function

    @classmethod
    def parse(cls, buffer: memoryview, path: str) -> Self:
        """Read a file; raise FormatError if it breaks the format."""
        if len(buffer) < _HEADER.size:
            raise FormatError(path, _PLACE, 0, f"needs {_HEADER.size} bytes, {len(buffer)} are left")
        magic, key, *sizes = _HEADER.unpack(buffer[: _HEADER.size])
        if magic not in (MAGIC, _WITHOUT_POINTERS):
            raise FormatError(path, _PLACE, 0, f"magic is {magic!r}, must be {MAGIC!r}")
        if sum(sizes) != len(buffer) - _HEADER.size:
            problem = f"tables have {sum(sizes)} bytes, {len(buffer) - _HEADER.size} are left"
            raise FormatError(path, _PLACE, 28, problem)
        first, second = _HEADER.size + sizes[0], _HEADER.size + sizes[0] + sizes[1]
        tables = (bytes(buffer[_HEADER.size : first]), bytes(buffer[first:second]), bytes(buffer[second:]))
        return cls(key, *tables, has_pointers=magic == MAGIC)

    def pack(self) -> bytes:
        """Return the file."""
        sizes = map(len, (self.icf, self.dcall, self.vcall))
        return _HEADER.pack(MAGIC, self.key, *sizes) + self.icf + self.dcall + self.vcall


def side_table_path(image: PeImage) -> str:
    """Return where the side table of an image is: next to its PDB, or next to itself if it has none."""
    return os.path.splitext(image.debug.path)[0] + SUFFIX


def table_key(image: PeImage) -> bytes:
    """Return what identifies an image in its side table."""
    if image.dwarf is None:
        return image.build_id.ljust(KEY_BYTES, b"\0")  # that of NB10 is shorter
    headers = image.headers
    digest = sha256(image.build_id).digest()[:_DIGEST_BYTES]
    return _WITH_DWARF.pack(headers.timestamp, headers.image_size_bytes, digest)


def read_side_table(image: PeImage) -> SideTable | None:
    """Return the side table of an image; None if there is none, or one of another link, which a warning reports."""
    path = side_table_path(image)
    if path not in image.looked_for:
        image.looked_for.append(path)
    if not os.path.exists(path):
        return None
    data = FileBytes.open(path)
    try:
        table = SideTable.parse(data[:], path)
    finally:
        data.close()
    if table.key != table_key(image):
        warn(f"{path}: does not belong to {image.path}: not used")
        return None
    return table
