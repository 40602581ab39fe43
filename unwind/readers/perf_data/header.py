"""The header of a perf.data file: where its records are, the events, and what is known of the machine and its files.

    8s "PERFILE2", u64 size_bytes = 104, u64 attr_size_bytes                 little-endian
    section attrs, data, event_types; 32s bits of features                   a section: u64 offset, u64 size_bytes
    attrs    attr, section of its ids (u64 each)                             attr_size_bytes together
    data     records
    after it, for each bit in ascending order: a section

A pipe (`perf record -o -`) has 16 bytes of it: the magic and the size. All else comes as records.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from icf.errors import FormatError, UnsupportedError
from icf.filebytes import FileBytes
from icf.reader import Reader
from unwind.readers.perf_data.events import LEAST_BYTES, Events, parse_attr, read_names, read_string
from unwind.readers.perf_data.layout import (
    CPUMODE_KERNEL,
    CPUMODE_MASK,
    FEATURE_ARCH,
    FEATURE_BUILD_ID,
    FEATURE_EVENT_DESC,
    FEATURE_HOSTNAME,
    FEATURE_OSRELEASE,
    MAGIC,
    MAGIC_OTHER_ENDIAN,
    MISC_BUILD_ID_SIZE,
    RECORD_HEADER,
)

_PIPE_BYTES, _FILE_BYTES = 16, 104
_FEATURE_COUNT = 256
_SECTION_BYTES = 16
_ID_LIMIT = 1 << 20
_BUILD_ID_BYTES = 20
KERNEL = "[kernel.kallsyms]"
_READ = (FEATURE_BUILD_ID, FEATURE_HOSTNAME, FEATURE_OSRELEASE, FEATURE_ARCH, FEATURE_EVENT_DESC)


@dataclass(slots=True, eq=False)
class Header:
    """What a recording says of itself, from the header or, in a pipe, from its first records."""

    path: str
    events: Events = field(default_factory=Events)
    build_ids: dict[str, bytes] = field(default_factory=dict)  # by path; b"": several files were there
    hostname: str = ""
    release: str = ""  # of the kernel, as `uname -r` has it
    arch: str = ""  # as `uname -m` has it
    data: tuple[int, int] = (0, 0)  # where the records start and end
    is_pipe: bool = False
    is_unfinished: bool = False  # perf was killed before it wrote the rest of the header
    are_features_cut: bool = False  # they stand at the end of the file, which is not all there

    def read_feature(self, feature: int, reader: Reader) -> None:
        """Read one section of the header."""
        if feature == FEATURE_BUILD_ID:
            while reader.remaining:
                start = reader.pos
                _, misc, size_bytes = RECORD_HEADER.unpack(reader.take(RECORD_HEADER.size))
                if size_bytes <= RECORD_HEADER.size:
                    raise reader.error(f"build id of {size_bytes} bytes", start)
                self.add_build_id(misc, bytes(reader.take(size_bytes - RECORD_HEADER.size)))
        elif feature == FEATURE_HOSTNAME:
            self.hostname = read_string(reader)
        elif feature == FEATURE_OSRELEASE:
            self.release = read_string(reader)
        elif feature == FEATURE_ARCH:
            self.arch = read_string(reader)
        elif feature == FEATURE_EVENT_DESC:
            read_names(reader, self.events)

    def add_build_id(self, misc: int, entry: bytes) -> None:
        """Take an entry of the list: s32 pid, the build id in 24 bytes, its path; what is cut short is left out.

        Build ids shorter than 20 bytes are filled up with zeros; newer perfs say how long they are.
        """
        build_id, name = entry[4 : 4 + _BUILD_ID_BYTES], entry[28:].partition(b"\0")[0]
        size_bytes = entry[24] if misc & MISC_BUILD_ID_SIZE and len(entry) > 24 else _BUILD_ID_BYTES
        build_id = build_id[:size_bytes] if misc & MISC_BUILD_ID_SIZE else without_padding(build_id)
        path = name.decode("utf-8", "surrogateescape")
        if path and any(build_id) and (misc & CPUMODE_MASK == CPUMODE_KERNEL or not path.startswith("[guest.")):
            known = self.build_ids.setdefault(path, build_id)
            if known != build_id:
                self.build_ids[path] = b""


def without_padding(build_id: bytes) -> bytes:
    """Return a build id without the zeros that fill it up to 20 bytes: those of 16 and 8 bytes are in use."""
    for size_bytes in (8, 16):
        if not any(build_id[size_bytes:]):
            return build_id[:size_bytes]
    return build_id


def read_header(content: FileBytes) -> Header:
    """Return the header of a file; `FormatError` for what breaks a rule."""
    header = Header(content.path)
    reader = Reader(content[:_FILE_BYTES], content.path, "file header")
    magic = bytes(reader.take(len(MAGIC)))
    if magic == MAGIC_OTHER_ENDIAN:
        raise UnsupportedError(
            f"{content.path}: was recorded on a big-endian machine, only little-endian ones are read"
        )
    if magic != MAGIC:
        raise reader.error(f"starts with {magic.hex()}, must start with {MAGIC.hex()}", 0)
    size_bytes = reader.u64()
    if size_bytes == _PIPE_BYTES:
        header.is_pipe, header.data = True, (_PIPE_BYTES, len(content))
        return header
    if size_bytes != _FILE_BYTES:
        raise reader.error(f"header of {size_bytes} bytes, must have {_FILE_BYTES}, or {_PIPE_BYTES} in a pipe", 8)
    attr_bytes = reader.u64()
    attrs, data, _ = ((reader.u64(), reader.u64()) for _ in range(3))
    features = reader.uint(_FEATURE_COUNT // 8)
    _read_attrs(content, header, attr_bytes, *attrs)
    start, size_bytes = data
    if not _FILE_BYTES <= start <= len(content):
        raise reader.error(f"records at offset {start:#x}, the file ends at {len(content):#x}", 40)
    header.is_unfinished = not size_bytes
    if not size_bytes or size_bytes > len(content) - start:
        header.data = start, len(content)
        return header
    header.data = start, start + size_bytes
    _read_features(content, header, features)
    return header


def _read_attrs(content: FileBytes, header: Header, attr_bytes: int, start: int, size_bytes: int) -> None:
    if attr_bytes < LEAST_BYTES + _SECTION_BYTES or size_bytes % attr_bytes:
        raise FormatError(
            content.path, "file header", 16, f"attrs of {attr_bytes} bytes each, {size_bytes} bytes together"
        )
    if start > len(content) or size_bytes > len(content) - start:
        raise FormatError(
            content.path, "file header", 24, f"attrs at offset {start:#x}, {size_bytes} bytes: beyond the file"
        )
    for at in range(start, start + size_bytes, attr_bytes):
        entry = content[at : at + attr_bytes]
        attr = parse_attr(entry[:-_SECTION_BYTES], content.path, "attrs", at)
        ids = Reader(entry, content.path, "attrs", attr_bytes - _SECTION_BYTES)
        ids_at, ids_bytes = ids.u64(), ids.u64()
        if ids_bytes % 8 or ids_bytes > 8 * _ID_LIMIT or ids_at > len(content) or ids_bytes > len(content) - ids_at:
            raise FormatError(content.path, "attrs", at, f"ids at offset {ids_at:#x}, {ids_bytes} bytes")
        header.events.add(attr, content[ids_at : ids_at + ids_bytes].cast("Q"))


def _read_features(content: FileBytes, header: Header, features: int) -> None:
    sections = Reader(content[header.data[1] :], content.path, "features")
    for feature in range(_FEATURE_COUNT):
        if features >> feature & 1:
            if sections.remaining < _SECTION_BYTES:
                header.are_features_cut = True
                return
            start, size_bytes = sections.u64(), sections.u64()
            if feature not in _READ:
                continue
            if start > len(content) or size_bytes > len(content) - start:
                header.are_features_cut = True
                continue
            header.read_feature(
                feature, Reader(content[start : start + size_bytes], content.path, f"feature {feature}")
            )
