"""What identifies a module, as a list of modules has it: so that its symbols can be found on another machine.

    {"path": "/usr/bin/shop", "load_address": "0x555500000000", "size_bytes": 16552,
     "build_id": "5d0c...", "build_id_note": "BAAAABQAAAADAAAAR05VAF0M...",
     "debuglink": {"name": "shop.debug", "crc": "0x0badf00d"}}

    {"path": "C:\\\\app\\\\app.exe", "load_address": "0x7ff600000000", "size_bytes": 12288,
     "pe": {"timestamp": "0x6b03fcaa", "image_size_bytes": 12288,
            "debug_directory": "AAAAAKr8A2sAAAAAAgAAAC8AAAAAAAAAHAAAAFJTRFM0L83J...",
            "debug_directory_entry_bytes": 28}}

`build_id_note` is the whole note of `.note.gnu.build-id`, `debug_directory` the chunk of `icf.pe.debugdirectory`; both
are base64. Digits of numbers are hexadecimal where a number is a string.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from icf.errors import FormatError, IcfError
from icf.pe.debugdirectory import ENTRY_BYTES, pack_chunk, parse_chunk
from icf.pe.identity import PeIdentity

if TYPE_CHECKING:
    from icf.elf.image import Image

_BUILD_ID = re.compile(r"(?:[0-9a-fA-F]{2}){2,64}")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}")


class ListedLink(NamedTuple):
    """`.gnu_debuglink` of a module: the name of its debug file, and the CRC-32 of that."""

    name: str
    crc: int


class ModuleIdentity(NamedTuple):
    """What is known of a module; all fields may be empty."""

    build_id: bytes = b""  # as recorded: perf and minidumps may have cut it, or made one
    build_id_note: bytes = b""  # of the image itself
    debuglink: ListedLink | None = None
    pe: PeIdentity | None = None


def identity_of_image(image: Image) -> ModuleIdentity:
    """Return the identity of an ELF image."""
    from icf.debugfiles.links import parse_debuglink
    from icf.elf.notes import build_id_note

    link = parse_debuglink(image)
    note = build_id_note(image.build_id) if image.build_id else b""
    return ModuleIdentity(image.build_id, note, None if link is None else ListedLink(link.name, link.crc))


def fields_of(identity: ModuleIdentity) -> dict[str, Any]:
    """Return the fields of an entry that identify a module."""
    fields: dict[str, Any] = {}
    if identity.build_id:
        fields["build_id"] = identity.build_id.hex()
    if identity.build_id_note:
        fields["build_id_note"] = base64.b64encode(identity.build_id_note).decode()
    if identity.debuglink is not None:
        fields["debuglink"] = {"name": identity.debuglink.name, "crc": f"{identity.debuglink.crc:#010x}"}
    if identity.pe is not None:
        fields["pe"] = {
            "timestamp": f"{identity.pe.timestamp:#010x}",
            "image_size_bytes": identity.pe.image_size_bytes,
            "debug_directory": base64.b64encode(pack_chunk(identity.pe.entries)).decode(),
            "debug_directory_entry_bytes": len(identity.pe.entries) * ENTRY_BYTES,
        }
    return fields


def parse_identity(entry: dict[str, Any], place: str) -> ModuleIdentity:
    """Return what an entry says of the identity of its module.

    Args:
        entry: an object of the list; fields that are missing are not known.
        place: for messages: the list, and which entry it is.

    Raises:
        IcfError: a field is not what it must be, or two fields contradict each other.
    """
    build_id, note = _build_id(entry, place)
    return ModuleIdentity(build_id, note, _debuglink(entry.get("debuglink"), place), _pe(entry.get("pe"), place))


def number_of(value: Any, place: str, least: int, limit: int = 1 << 64) -> int | None:
    """Return a number, or one in hexadecimal as a string; None where there is none. Raises `IcfError`."""
    if value is None:
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value, 16)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value < limit:
        return value
    raise IcfError(f"{place} must be a number of {limit.bit_length() - 1} bits, or one in hexadecimal as a string")


def _build_id(entry: dict[str, Any], place: str) -> tuple[bytes, bytes]:
    """Return the build id and its note; each may be missing, and they must agree."""
    digits = entry.get("build_id")
    if digits is not None and not (isinstance(digits, str) and (_BUILD_ID.fullmatch(digits) or not digits)):
        raise IcfError(f"{place}: build_id must be a string of hexadecimal digits")
    build_id = bytes.fromhex(digits or "")
    if entry.get("build_id_note") is None:
        return build_id, b""
    from icf.elf.notes import build_id_of_notes
    from icf.reader import Reader

    note = _base64(entry["build_id_note"], f"{place}: build_id_note")
    try:
        of_note = build_id_of_notes(Reader(note, "", "build_id_note"))
    except FormatError:
        of_note = b""
    if not of_note:
        raise IcfError(f"{place}: build_id_note must be a note with a build id, in base64")
    if build_id and build_id != of_note:
        raise IcfError(f"{place}: build_id is {build_id.hex()}, its note has {of_note.hex()}")
    return of_note, note


def _debuglink(value: Any, place: str) -> ListedLink | None:
    if value is None:
        return None
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name or "/" in name or "\0" in name:
        raise IcfError(f"{place}: debuglink must be an object with the name of a file, and crc")
    return ListedLink(name, _u32(value.get("crc"), f"{place}: debuglink: crc"))


def _pe(value: Any, place: str) -> PeIdentity | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise IcfError(f"{place}: pe must be an object with timestamp and image_size_bytes")
    timestamp = _u32(value.get("timestamp"), f"{place}: pe: timestamp")
    image_size_bytes = _u32(value.get("image_size_bytes"), f"{place}: pe: image_size_bytes")
    chunk = _base64(value.get("debug_directory", ""), f"{place}: pe: debug_directory")
    entry_bytes = _u32(value.get("debug_directory_entry_bytes", 0), f"{place}: pe: debug_directory_entry_bytes")
    return PeIdentity(timestamp, image_size_bytes, tuple(parse_chunk(chunk, entry_bytes, place)))


def _u32(value: Any, place: str) -> int:
    number = number_of(value, place, 0, 1 << 32)
    if number is None:
        raise IcfError(f"{place} is missing")
    return number


def _base64(value: Any, place: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise IcfError(f"{place} must be a string in base64") from None
