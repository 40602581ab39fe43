"""Archives (`lib.a`): the members, as views of the mapped file.

    "!<arch>\\n", then for each member a header of 60 characters, padded with blanks, and its bytes,
    then a newline where the next header would start at an odd offset:

        name 16, mtime 12, uid 6, gid 6, mode 8 (octal), size 10 (decimal), "`\\n"

    name   "member.o/"      GNU; the slash ends it, blanks may be part of it
           "member.o  "     BSD, and old
           "/123"           GNU: at offset 123 in the member "//", ended by "/\\n"; Microsoft: by a NUL
           "#1/20"          BSD: the first 20 bytes of the contents, NUL-padded
           "/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED"   the symbol table, not a member
           "//", "ARFILENAMES/"                              the long names, not a member

A thin archive starts with "!<thin>\\n" and has headers without contents (the two tables keep theirs): the
names are paths, relative to the directory of the archive. One of the form "/123:4567" is the member at
offset 4567 of the archive at that path, as GNU ar writes it when an archive is added to a thin one.

Every view holds its own mapping alive. A mapping costs a file descriptor for as long as it lives, and a
thousand objects are more than many shells allow; when half of the limit is used up, files are read instead.
"""

from __future__ import annotations

import mmap
import os
import resource
import stat
from collections.abc import Iterator
from typing import NamedTuple

from icf.errors import FormatError, IcfError

_MAGIC, _THIN_MAGIC = b"!<arch>\n", b"!<thin>\n"
_HEADER_SIZE_BYTES = 60
_PLACE = "archive"
_LONG_NAMES = frozenset((b"//", b"ARFILENAMES/"))
_TABLES = _LONG_NAMES | {b"/", b"/SYM64/", b"/<ECSYMBOLS>/", b"/<XFGHASHMAP>/"}
_BSD_TABLES = frozenset((b"__.SYMDEF", b"__.SYMDEF SORTED", b"__.SYMDEF_64", b"__.SYMDEF_64 SORTED"))
_NO_BYTES = memoryview(b"")


class MissingFileError(IcfError):
    """A file that does not exist; a caller that reads many files may go on with the next."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: no such file"


def map_file(path: str, *, may_be_pipe: bool = False) -> memoryview:
    """Return the bytes of a file, mapped where possible. Raise IcfError if it cannot be read.

    A pipe is only for a path that the user has named: reading one waits for its writer, and a path in a file that
    comes from elsewhere may lead to a pipe that nothing writes to. A device is not opened: that alone has effects.
    """
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
        if kind != stat.S_IFREG and not (may_be_pipe and kind == stat.S_IFIFO):
            expected = "neither a regular file nor a pipe" if may_be_pipe else "is not a regular file"
            raise IcfError(f"{path}: cannot be read: {expected}")
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if kind == stat.S_IFIFO else os.O_NONBLOCK | os.O_NOCTTY))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFileError(path) from error
    except OSError as error:
        raise IcfError(f"{path}: {error.strerror}") from error
    try:
        status = os.fstat(fd)
        if stat.S_IFMT(status.st_mode) != kind:
            raise IcfError(f"{path}: cannot be read: it was replaced")
        size_bytes = status.st_size
        if size_bytes and not _are_descriptors_short(fd):
            return memoryview(mmap.mmap(fd, size_bytes, access=mmap.ACCESS_READ))
        with open(fd, "rb", closefd=False) as file:
            return memoryview(file.read())
    except (OSError, ValueError) as error:
        raise IcfError(f"{path}: cannot be read: {error}") from error
    finally:
        os.close(fd)


def _are_descriptors_short(fd: int) -> bool:
    """Return whether descriptors are short: a new mapping would take one from the upper half of the limit.

    The lowest free descriptor counts those in use.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return False
    duplicate = os.dup(fd)
    os.close(duplicate)
    return duplicate >= limit // 2


def is_archive(buffer: memoryview) -> bool:
    """Return whether the bytes start like an archive, regular or thin."""
    return bytes(buffer[:8]) in (_MAGIC, _THIN_MAGIC)


def is_thin(buffer: memoryview) -> bool:
    """Return whether the bytes start like an archive whose members are other files."""
    return bytes(buffer[:8]) == _THIN_MAGIC


class Member(NamedTuple):
    """A member as its header describes it; `Archive.contents` has the bytes."""

    offset: int  # of the header
    name: str
    stored: memoryview | None  # None in a thin archive
    origin: int | None = None  # offset of the header in the archive that `name` is then


class Archive:
    """A regular or thin archive; reading the headers touches no member of a thin one."""

    def __init__(self, buffer: memoryview, path: str) -> None:
        self.path = path
        self._buffer = buffer
        self._nested: dict[str, dict[int, Member]] = {}

    def __iter__(self) -> Iterator[Member]:
        """Yield the members in file order; names may repeat."""
        return _entries(self._buffer, self.path)

    def name(self, member: Member) -> str:
        """Return the name that a linker prints. Raise MissingFileError if its archive no longer exists."""
        return member.name if member.origin is None else self._inner(member).name

    def contents(self, member: Member) -> memoryview:
        """Return a member's bytes. Raise MissingFileError for a thin archive's member that no longer exists."""
        if member.origin is not None:
            member = self._inner(member)
        return map_file(self._file(member)) if member.stored is None else member.stored

    def _file(self, member: Member) -> str:
        return os.path.join(os.path.dirname(self.path), member.name)

    def _inner(self, member: Member) -> Member:
        """Return the member of another archive that a member of this one stands for."""
        path = self._file(member)
        inner = self._nested.get(path)
        if inner is None:
            inner = self._nested[path] = _by_offset(path)
        if member.origin not in inner:
            raise FormatError(self.path, _PLACE, member.offset, f"{path} has no member at offset {member.origin}")
        return inner[member.origin]


def members(path: str | os.PathLike[str]) -> Iterator[tuple[str, memoryview]]:
    """Yield (name, contents) of each member, in the order of the archive; names may repeat."""
    path = os.fspath(path)
    archive = Archive(map_file(path, may_be_pipe=True), path)
    for member in archive:
        yield archive.name(member), archive.contents(member)


def _entries(buffer: memoryview, path: str) -> Iterator[Member]:
    magic = bytes(buffer[:8])
    if magic not in (_MAGIC, _THIN_MAGIC):
        raise FormatError(path, _PLACE, 0, f"not an archive: starts with {magic.hex()}")
    is_thin = magic == _THIN_MAGIC
    long_names = b""
    offset = len(_MAGIC)
    while offset < len(buffer):
        raw_name, size_bytes = _header(buffer, path, offset)
        start = offset + _HEADER_SIZE_BYTES
        if is_thin and raw_name not in _TABLES:
            yield _thin_entry(path, offset, raw_name, long_names)
            offset = start
            continue
        if size_bytes > len(buffer) - start:
            raise FormatError(
                path, _PLACE, offset, f"member of {size_bytes} bytes, {len(buffer) - start} are left in the archive"
            )
        contents = buffer[start : start + size_bytes]
        if raw_name in _LONG_NAMES:
            long_names = bytes(contents)
        elif raw_name not in _TABLES:
            name, name_size_bytes = _name(path, offset, raw_name, long_names, contents)
            if name not in _BSD_TABLES:
                yield Member(offset, os.fsdecode(name), contents[name_size_bytes:])
        offset = start + size_bytes + (size_bytes & 1)


def _thin_entry(path: str, offset: int, raw_name: bytes, long_names: bytes) -> Member:
    """Return an entry without contents, "/123" or "/123:4567"."""
    origin: int | None = None
    if raw_name.startswith(b"/") and b":" in raw_name:
        raw_name, _, digits = raw_name.partition(b":")
        if not digits.isdigit():
            raise FormatError(path, _PLACE, offset, f"member has {digits!r} as its offset in another archive")
        origin = int(digits)
    name, _ = _name(path, offset, raw_name, long_names, _NO_BYTES)
    if not name or b"\0" in name:
        raise FormatError(path, _PLACE, offset, f"member of a thin archive has {name!r} as its path")
    return Member(offset, os.fsdecode(name), None, origin)


def _by_offset(path: str) -> dict[int, Member]:
    """Return the members of a regular archive by the offset of their header."""
    buffer = map_file(path)
    if bytes(buffer[:8]) != _MAGIC:
        raise FormatError(path, _PLACE, 0, "not a regular archive, though a thin archive refers to members in it")
    return {member.offset: member for member in _entries(buffer, path)}


def _header(buffer: memoryview, path: str, offset: int) -> tuple[bytes, int]:
    """Return the name field without padding, and the size, of the header at `offset`."""
    header = bytes(buffer[offset : offset + _HEADER_SIZE_BYTES])
    if len(header) < _HEADER_SIZE_BYTES:
        raise FormatError(path, _PLACE, offset, f"member header needs {_HEADER_SIZE_BYTES} bytes, has {len(header)}")
    if header[58:] != b"`\n":
        raise FormatError(path, _PLACE, offset, f"member header ends in {header[58:].hex()}, must be 600a")
    size = header[48:58].rstrip(b" ")
    if not size.isdigit():
        raise FormatError(path, _PLACE, offset, f"member size is {size!r}, must be a decimal number")
    return header[:16].rstrip(b" "), int(size)


def _name(path: str, offset: int, raw_name: bytes, long_names: bytes, contents: memoryview) -> tuple[bytes, int]:
    """Return a member's name, and how many bytes of it stand before the contents."""
    if raw_name.startswith(b"#1/"):
        digits = raw_name[3:]
        if not digits.isdigit() or int(digits) > len(contents):
            raise FormatError(path, _PLACE, offset, f"member name {raw_name!r} does not fit {len(contents)} bytes")
        return bytes(contents[: int(digits)]).rstrip(b"\0"), int(digits)
    if raw_name.startswith(b"/"):
        return _long_name(path, offset, raw_name[1:], long_names), 0
    return raw_name.removesuffix(b"/"), 0


def _long_name(path: str, offset: int, digits: bytes, long_names: bytes) -> bytes:
    if not digits.isdigit() or int(digits) >= len(long_names):
        raise FormatError(
            path,
            _PLACE,
            offset,
            f"member name {b'/' + digits!r} is not an offset in the {len(long_names)} bytes of names",
        )
    start = int(digits)
    ends = [end for end in map(long_names.find, (b"\n", b"\0"), (start, start)) if end >= 0]
    if not ends:
        raise FormatError(path, _PLACE, offset, f"member name at {start} of the long names has no end")
    return long_names[start : min(ends)].removesuffix(b"/")
