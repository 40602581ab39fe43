"""The debug directory of a PE image as one chunk: what a recorder saves, so that symbols can be found elsewhere.

In an image the entries of the directory refer to blobs anywhere in the file. A chunk has the entries one after the
other, then the blobs, each at a multiple of 4 bytes. It is what dbghelp's `MODLOAD_DATA.data` takes, with its size.

    chunk +0x00   entry 0: CodeView, SizeOfData 24, AddressOfRawData 0, PointerToRawData 0x38 ─┐
          +0x1c   entry 1: POGO,     SizeOfData 8,  AddressOfRawData 0, PointerToRawData 0x34  │ ─┐
          +0x38   RSDS ... app.pdb  <──────────────────────────────────────────────────────────┘  │ 0x1c + 0x34
          +0x50   PGU ...           <─────────────────────────────────────────────────────────────┘

An entry has 28 bytes (IMAGE_DEBUG_DIRECTORY): Characteristics u32, TimeDateStamp u32, MajorVersion u16, MinorVersion
u16, Type u32, SizeOfData u32, AddressOfRawData u32, PointerToRawData u32. AddressOfRawData is 0, and PointerToRawData
counts from the beginning of its own entry; it is 0 where SizeOfData is. CodeView entries come first, the others keep
their order. The chunk does not say where the entries end: their size in bytes is saved beside it. Other programs count
PointerToRawData from the beginning of the chunk. For entry 0 the two are the same, so most readers find the PDB.

Sources: Microsoft, "PE Format", The Debug Section; J. Passing, "Explicit Symbol Loading with dbghelp".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from struct import Struct

from icf.errors import FormatError
from icf.reader import Reader

CODEVIEW = 2  # IMAGE_DEBUG_TYPE_CODEVIEW
ENTRY_BYTES = 28
CHUNK_LIMIT_BYTES = 1 << 24
_ENTRY = Struct("<IIHHIIII")
_ENTRY_LIMIT = 256
_BLOB_ALIGN = 4
_SECTION = "debug directory"


@dataclass(frozen=True, slots=True)
class DebugEntry:
    """An entry with its blob; the fields that say where the blob is are left out."""

    characteristics: int
    timestamp: int  # TimeDateStamp: seconds since 1970, or a hash in a reproducible build
    major_version: int
    minor_version: int
    type: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class CodeView:
    """What names the PDB of an image and identifies it.

    `RSDS` has a GUID, `NB10`, of linkers before 2002, a signature of 4 bytes in its place."""

    signature: bytes  # as in the file: 16 bytes, or 4
    age: int
    path: str  # as the linker wrote it; empty in some images


def parse_entries(reader: Reader) -> list[tuple[DebugEntry, int, int, int]]:
    """Return each entry without its blob, then SizeOfData, AddressOfRawData and PointerToRawData.

    Args:
        reader: over the entries alone.

    Raises:
        FormatError: the entries do not fill the directory, or are too many.
    """
    if reader.remaining % ENTRY_BYTES or reader.remaining > _ENTRY_LIMIT * ENTRY_BYTES:
        rule = f"must be a multiple of {ENTRY_BYTES}, {_ENTRY_LIMIT} entries or fewer"
        raise reader.error(f"{reader.remaining} bytes of entries, {rule}")
    entries = []
    while reader.remaining:
        characteristics, timestamp, major, minor, kind, size_bytes, rva, pointer = _ENTRY.unpack(
            reader.take(ENTRY_BYTES)
        )
        entries.append((DebugEntry(characteristics, timestamp, major, minor, kind, b""), size_bytes, rva, pointer))
    return entries


def pack_chunk(entries: Sequence[DebugEntry]) -> bytes:
    """Return the entries and their blobs as a chunk; `ENTRY_BYTES` for each entry come before the blobs."""
    ordered = sorted(entries, key=lambda each: each.type != CODEVIEW)
    head, blobs = bytearray(), bytearray()
    for idx, each in enumerate(ordered):
        pointer = 0
        if each.blob:
            blobs += bytes(-len(blobs) % _BLOB_ALIGN)
            pointer = len(ordered) * ENTRY_BYTES + len(blobs) - idx * ENTRY_BYTES
            blobs += each.blob
        versions = each.major_version, each.minor_version
        head += _ENTRY.pack(each.characteristics, each.timestamp, *versions, each.type, len(each.blob), 0, pointer)
    return bytes(head + blobs)


def parse_chunk(chunk: bytes, header_bytes: int, path: str) -> list[DebugEntry]:
    """Return the entries of a chunk, also of one whose pointers count from its beginning.

    Args:
        chunk: entries and blobs.
        header_bytes: the size of the entries.
        path: for messages.

    Raises:
        FormatError: the entries are cut, or by either reading a blob lies outside of the chunk or in another.
    """
    if len(chunk) > CHUNK_LIMIT_BYTES:
        raise FormatError(path, _SECTION, 0, f"{len(chunk)} bytes, must be {CHUNK_LIMIT_BYTES} or fewer")
    if header_bytes > len(chunk):
        raise FormatError(path, _SECTION, 0, f"{header_bytes} bytes of entries, the chunk has {len(chunk)}")
    listed = parse_entries(Reader(chunk, path, _SECTION, 0, header_bytes))
    blobs = _blobs(chunk, header_bytes, listed, is_relative=True)
    if blobs is None:
        blobs = _blobs(chunk, header_bytes, listed, is_relative=False)
    if blobs is None:
        at, size_bytes, pointer = _first_outside(chunk, header_bytes, listed)
        problem = f"{size_bytes} bytes at {pointer:#x} are not a blob of the chunk, which has {len(chunk)} bytes"
        raise FormatError(path, _SECTION, at, problem)
    return [replace(entry, blob=blob) for (entry, *_), blob in zip(listed, blobs, strict=True)]


def parse_codeview(blob: bytes, path: str) -> CodeView | None:
    """Return what a CodeView blob says of the PDB; None for one of another kind. Raises `FormatError`."""
    reader = Reader(blob, path, "CodeView")
    magic = bytes(reader.take(min(4, reader.remaining)))
    if magic == b"RSDS":
        signature = bytes(reader.take(16))
    elif magic == b"NB10":
        reader.u32()  # an offset, always 0
        signature = bytes(reader.take(4))
    else:
        return None
    age = reader.u32()
    name, _, _ = bytes(reader.take(reader.remaining)).partition(b"\0")
    return CodeView(signature, age, name.decode("utf-8", "surrogateescape"))


def codeview_of(entries: Sequence[DebugEntry], path: str) -> CodeView | None:
    """Return the first CodeView record that names a PDB; None if no entry does. Raises `FormatError`."""
    for each in entries:
        if each.type == CODEVIEW and each.blob:
            codeview = parse_codeview(each.blob, path)
            if codeview is not None and codeview.path:
                return codeview
    return None


def _blobs(
    chunk: bytes, header_bytes: int, listed: Sequence[tuple[DebugEntry, int, int, int]], *, is_relative: bool
) -> list[bytes] | None:
    """Return the blobs of entries; None if one lies outside or in another, or is not what its type says."""
    blobs, ends = [], []
    for idx, (entry, size_bytes, _, pointer) in enumerate(listed):
        start = pointer + (idx * ENTRY_BYTES if is_relative else 0)
        if not size_bytes:
            start = header_bytes
        if not header_bytes <= start <= start + size_bytes <= len(chunk):
            return None
        blob = chunk[start : start + size_bytes]
        if entry.type == CODEVIEW and size_bytes and blob[:4] not in (b"RSDS", b"NB10"):
            return None
        blobs.append(blob)
        ends.append((start, start + size_bytes))
    ends = sorted(each for each in ends if each[0] < each[1])
    return None if any(end > start for (_, end), (start, _) in pairwise(ends)) else blobs


def _first_outside(
    chunk: bytes, header_bytes: int, listed: Sequence[tuple[DebugEntry, int, int, int]]
) -> tuple[int, int, int]:
    """Return where the first entry is whose own blob is refused, with its size and pointer."""
    for idx in range(len(listed)):
        if _blobs(chunk, header_bytes, listed[: idx + 1], is_relative=False) is None:
            return idx * ENTRY_BYTES, listed[idx][1], listed[idx][3]
    raise AssertionError("every blob lies in the chunk")
