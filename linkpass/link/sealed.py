"""A file that was kept: it is whole, and of this version, or it counts as missing.

magic        kind and version, a line
32 bytes     SHA-256 of all that follows
4 bytes      size of the JSON
JSON, bytes
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

_DIGEST_BYTES, _SIZE_BYTES = 32, 4


def seal(magic: bytes, head: object, parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the contents of a file; `head` becomes JSON."""
    encoded = json.dumps(head).encode()
    rest = b"".join([len(encoded).to_bytes(_SIZE_BYTES, "little"), encoded, *parts])
    return magic + sha256(rest).digest() + rest


def unseal(magic: bytes, data: bytes) -> tuple[Any, memoryview]:
    """Return the JSON and the bytes. Raise ValueError if they are not whole, or of another version."""
    start = len(magic) + _DIGEST_BYTES
    rest = memoryview(data)[start:]
    if data[: len(magic)] != magic or sha256(rest).digest() != data[len(magic) : start]:
        raise ValueError("is not what was kept, or is damaged")
    end = _SIZE_BYTES + int.from_bytes(rest[:_SIZE_BYTES], "little")
    try:
        return json.loads(bytes(rest[_SIZE_BYTES:end])), rest[end:]
    except RecursionError as error:
        raise ValueError("has lists in too many lists") from error


def text(value: object) -> str:
    """Return a value of the JSON that is a text. Raise TypeError if it is none."""
    if not isinstance(value, str):
        raise TypeError
    return value


def count(value: object) -> int:
    """Return a value of the JSON that is a count. Raise TypeError if it is none."""
    if not isinstance(value, int) or value < 0:
        raise TypeError
    return value
