"""What identifies a PE image: the fields of its headers and its debug directory, from the file.

lief reads the headers: those of every machine, and of 32 bits, which `icf.pe.headers` does not open. The entries of the
directory and their blobs are read here, byte by byte: lief leaves out entries that it cannot interpret.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from icf.errors import FormatError
from icf.filebytes import FileBytes
from icf.pe.debugdirectory import CHUNK_LIMIT_BYTES, DebugEntry, parse_entries
from icf.pe.headers import MAGIC
from icf.reader import Reader

if TYPE_CHECKING:
    import lief

_DIRECTORY_LIMIT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class PeIdentity:
    """The fields by which symbol servers and dbghelp recognize an image."""

    timestamp: int  # TimeDateStamp of the COFF header
    image_size_bytes: int  # SizeOfImage
    entries: tuple[DebugEntry, ...]
    problems: tuple[str, ...] = ()  # entries whose blob is not in the file, which have an empty one


def read_identity(path: str) -> PeIdentity:
    """Return the identity of a PE image.

    Args:
        path: the file.

    Returns:
        Its identity; `problems` has a line for each entry whose blob the file does not have.

    Raises:
        FormatError: it is not a PE image, or its debug directory is outside of the file.
        IcfError: it cannot be read.
    """
    data = FileBytes.open(path)
    try:
        binary = _parse(path, data)
        entries, problems = _read_entries(binary, data, path)
        header, optional = binary.header, binary.optional_header
        return PeIdentity(header.time_date_stamps, optional.sizeof_image, tuple(entries), tuple(problems))
    finally:
        data.close()


def _parse(path: str, data: FileBytes) -> lief.PE.Binary:
    import lief

    lief.logging.disable()
    config = lief.PE.ParserConfig()
    config.parse_exports = config.parse_imports = config.parse_rsrc = config.parse_reloc = False
    config.parse_signature = config.parse_exceptions = config.parse_arm64x_binary = False
    binary = lief.PE.parse(path, config) if data[:2] == MAGIC else None
    if binary is None:
        raise FormatError(path, "PE header", 0, "is not a PE image")
    return binary


def _read_entries(binary: lief.PE.Binary, data: FileBytes, path: str) -> tuple[list[DebugEntry], list[str]]:
    import lief

    directory = binary.data_directory(lief.PE.DataDirectory.TYPES.DEBUG_DIR)
    if directory is None or not directory.size:
        return [], []
    start = _offset(binary, directory.rva, directory.size)
    if start is None or start + directory.size > len(data) or directory.size > _DIRECTORY_LIMIT_BYTES:
        problem = f"{directory.size} bytes at RVA {directory.rva:#x} are not in a section"
        raise FormatError(path, "debug directory", 0, problem)
    content = data[start : start + directory.size]
    entries, problems, left_bytes = [], [], CHUNK_LIMIT_BYTES - directory.size
    for idx, (entry, size_bytes, rva, pointer) in enumerate(parse_entries(Reader(content, path, "debug directory"))):
        at = pointer or (_offset(binary, rva, size_bytes) or 0)
        if size_bytes and (not at or at + size_bytes > len(data) or size_bytes > left_bytes):
            problems.append(f"{path}: debug directory: entry {idx}: {size_bytes} bytes at {at:#x} are left out")
            size_bytes = 0
        left_bytes -= size_bytes
        entries.append(replace(entry, blob=bytes(data[at : at + size_bytes])))
    return entries, problems


def _offset(binary: lief.PE.Binary, rva: int, size_bytes: int) -> int | None:
    """Return where in the file the bytes at an RVA are; None if no section has them."""
    for section in binary.sections:
        if 0 <= rva - section.virtual_address <= section.sizeof_raw_data - size_bytes:
            return section.pointerto_raw_data + rva - section.virtual_address
    return None
