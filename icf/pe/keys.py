"""The keys by which symbol servers keep PE images and PDBs: paths in a tree of folders, or below a URL.

    app.pdb/C9CD2F3494BD29204C4C44205044422E1/app.pdb    NAME/GUIDAGE/NAME: GUID and age of the CodeView record
    app.exe/6B03FCAA3000/app.exe                         NAME/TIMESTAMPSIZE/NAME: of the COFF and optional header

NAME is what follows the last `\\` or `/` of the path. The GUID has 32 digits without dashes, its first three fields as
numbers; an age and an image size are never padded, a time stamp is always. Of an `NB10` record the signature of 8
digits is in the place of the GUID.

Digits are upper case by custom of Windows; the image size is lower case there (`symstore`). By SSQP, as dotnet writes
trees, all is lower case, the name too. Windows finds either, a disk that distinguishes cases needs both looked up.

Sources: Microsoft, SymStore; dotnet/symstore, "SSQP Key Conventions".
"""

from __future__ import annotations

import re

from icf.errors import FormatError
from icf.pe.debugdirectory import CodeView

_GUID_BYTES = 16
_GUID_AGE = re.compile(r"[0-9A-Fa-f]{33,40}")


def guid_digits(guid: bytes) -> str:
    """Return a GUID as 32 upper-case digits: its fields of 4, 2 and 2 bytes are little-endian numbers."""
    fields = guid[3::-1] + guid[5:3:-1] + guid[7:5:-1] + guid[8:]
    return fields.hex().upper()


def pdb_key(codeview: CodeView, path: str) -> str:
    """Return the key of a PDB.

    Args:
        codeview: of the image, or made of what the PDB says of itself.
        path: for messages.

    Raises:
        FormatError: its name is not one of a file.
    """
    name = _name(codeview.path, path)
    signature = codeview.signature
    digits = guid_digits(signature) if len(signature) == _GUID_BYTES else signature[::-1].hex().upper()
    return f"{name}/{digits}{codeview.age:X}/{name}"


def parse_pdb_key(key: str) -> CodeView | None:
    """Return what a key of `pdb_key` with a GUID says, with the name as the path; None for any other text."""
    name, digits, again = (key.split("/") + ["", ""])[:3]
    if name != again or not _GUID_AGE.fullmatch(digits):
        return None
    stored = bytes.fromhex(digits[:32])
    guid = stored[3::-1] + stored[5:3:-1] + stored[7:5:-1] + stored[8:]
    return CodeView(guid, int(digits[32:], 16), name)


def image_key(image_path: str, timestamp: int, image_size_bytes: int) -> str:
    """Return the key of a PE image.

    Args:
        image_path: only its last part counts.
        timestamp: TimeDateStamp of the COFF header.
        image_size_bytes: SizeOfImage of the optional header.

    Raises:
        FormatError: the path has no name of a file.
    """
    name = _name(image_path, image_path)
    return f"{name}/{timestamp:08X}{image_size_bytes:x}/{name}"


def spellings(key: str) -> tuple[str, ...]:
    """Return a key as trees spell it: by custom of Windows, then in lower case."""
    return tuple(dict.fromkeys((key, key.lower())))


def _name(path: str, place: str) -> str:
    """Return the last part of a path of Windows or Unix; it becomes a folder, so nothing may lead out of it."""
    name = re.split(r"[\\/]", path)[-1]
    if not name or name.strip(". ") == "" or any(ord(char) < 32 or char == ":" for char in name):
        raise FormatError(place, "CodeView", 0, f"{name!r} is not a file name")
    return name
