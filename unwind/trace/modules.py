"""Where modules lay in the traced process: `modules.log` of DynamoRIO.

    Module Table: version 5, count 26
    Columns: id, containing_id, start, end, entry, offset, preferred_base, (custom fields), path
      8,   8, 0x00007f01.., 0x00007f01.., 0x00007f01.., 0000000000000000, 0x0000000000000000, v#1,0, /path/ld-2.31.so

One row for each segment; a module's first one has its own id as `containing_id`. A custom field `v#1,N,` is followed
by N bytes, whatever these are, so rows are not lines. Addresses are hexadecimal with 0x, offsets without.

Source: DynamoRIO, ext/drcovlib/modules.c, clients/drcachesim/tracer/raw2trace.cpp.
"""

from __future__ import annotations

import os
import re

from icf.errors import FormatError, IcfError
from unwind.samples.recording import Base, RecordedModule, RecordedProcess

_HEAD = re.compile(rb"Module Table: version (\d+), count (\d+)\r?\n")
_COLUMNS = re.compile(rb"Columns: [^\n]*\n")
_ID = re.compile(rb"\s*(\d{1,9}),")
_ADDRESS = re.compile(rb"\s*(?:0x)?([0-9a-fA-F]{1,16}),")
_ID_COUNT = 2  # of a row's numbers
_CUSTOM = re.compile(rb"\s*v#1,(\d{1,9}),")
_NUMBERS = {3: 5, 4: 6, 5: 7}  # of a row, by version
_SECTION = "module table"
_LIMIT_BYTES = 256 << 20
_SIDES = ("", "raw", "aux", "trace", "../raw", "../aux", "..", "../../raw", "../../aux")


def find_modules(path: str) -> str | None:
    """Return the `modules.log` of a trace, in or beside its directory; None if it has none."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    for side in _SIDES:
        found = os.path.normpath(os.path.join(folder or ".", side, "modules.log"))
        if os.path.isfile(found):
            return found
    return None


def read_modules(path: str) -> RecordedProcess:
    """Return the process that a `modules.log` describes.

    Raises `FormatError` for one that breaks a rule, `IcfError` where it cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            text = stream.read(_LIMIT_BYTES)
    except OSError as error:
        raise IcfError(f"{path}: {error.strerror}") from error
    return parse_modules(text, path)


def parse_modules(text: bytes, path: str) -> RecordedProcess:
    """Return the process that the text of a `modules.log` describes."""
    head = _HEAD.match(text)
    if head is None or int(head[1][:9]) not in _NUMBERS:
        problem = "does not begin with 'Module Table: version V', V from 3 to 5"
        raise FormatError(path, _SECTION, 0, problem)
    number_count, at = _NUMBERS[int(head[1][:9])], head.end()
    columns = _COLUMNS.match(text, at)
    at = columns.end() if columns is not None else at
    heads: dict[int, tuple[str, int, int]] = {}  # path, start, offset
    ends: dict[int, int] = {}
    while at < len(text) and text[at:].strip():
        numbers, at = _numbers(text, at, number_count, path)
        name, at = _name(text, at, path)
        own, containing, start, end = numbers[:4]
        if start >= end:
            raise FormatError(path, _SECTION, at, f"{name}: ends at {end:#x}, before its start {start:#x}")
        if own == containing:
            heads[own] = name, start, numbers[5] if number_count > 5 else 0
        ends[containing] = max(ends.get(containing, 0), end)
    process = RecordedProcess()
    for own, (name, start, offset) in heads.items():
        process.modules.append(RecordedModule(name, b"", Base.RUN_TIME, start, ends[own], offset))
    return process


def _numbers(text: bytes, at: int, count: int, path: str) -> tuple[list[int], int]:
    """Return the numbers that a row begins with, and where they end."""
    numbers = []
    for idx in range(count):
        found = (_ID if idx < _ID_COUNT else _ADDRESS).match(text, at)
        if found is None:
            raise FormatError(path, _SECTION, at, f"a row needs {count} numbers, the one with index {idx} is missing")
        numbers.append(int(found[1], 10 if idx < _ID_COUNT else 16))
        at = found.end()
    return numbers, at


def _name(text: bytes, at: int, path: str) -> tuple[str, int]:
    """Return the path at the end of a row, and where the next row begins."""
    custom = _CUSTOM.match(text, at)
    if custom is not None:
        at = custom.end() + int(custom[1])
        if at > len(text):
            raise FormatError(path, _SECTION, custom.start(), f"{int(custom[1])} bytes of a custom field are not there")
    end = text.find(b"\n", at)
    end = len(text) if end < 0 else end
    return os.fsdecode(text[at:end].strip()), end + 1
