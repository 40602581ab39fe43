"""The PDB's own stream (number 1): what identifies it, and the streams that have names.

    u32 version, u32 signature, u32 age, 16s GUID
    u32 size of the names, the names
    a hash table: u32 entries, u32 capacity, two bit vectors (u32 words, u32 each): used and deleted places;
    then for each entry u32 name (offset in the names), u32 stream

Source: LLVM, "The PDB Info Stream" and "The PDB Serialized Hash Table Format".
"""

from __future__ import annotations

from typing import NamedTuple

from icf.reader import Reader

STREAM = 1
_VERSION = 20000404  # VC70; later ones (VC80, VC110, VC140) are higher and have the same layout


class Info(NamedTuple):
    """What the stream says."""

    guid: bytes  # 16, as they are in the file: the first three fields are little-endian
    age: int  # of this stream; an image has the age of the DBI stream
    streams: dict[str, int]  # by name


def parse_info(buffer: memoryview, path: str) -> Info:
    """Return the stream; raise FormatError if it breaks the format."""
    reader = Reader(buffer, path, "PDB info stream")
    version = reader.u32()
    if version < _VERSION:
        raise reader.error(f"version is {version}, must be {_VERSION} or later", 0)
    reader.u32()
    age = reader.u32()
    guid = bytes(reader.take(16))
    names = bytes(reader.take(reader.u32()))
    start = reader.pos
    count, capacity = reader.u32(), reader.u32()
    if count > capacity:
        raise reader.error(f"{count} named streams are more than the capacity of {capacity}", start)
    for _ in range(2):
        reader.take(4 * reader.u32())
    streams: dict[str, int] = {}
    for _ in range(count):
        name, stream = reader.u32(), reader.u32()
        if name >= len(names):
            raise reader.error(f"name at {name:#x} is outside of the {len(names)} bytes of names", reader.pos - 8)
        streams[names[name : names.find(0, name)].decode("utf-8", "surrogateescape")] = stream
    return Info(guid, age, streams)
