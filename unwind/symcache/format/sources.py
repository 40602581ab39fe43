"""The other files that a symcache was made from: the section `sources`, which is checked on each opening.

    builder \0 roots \0 root ... \0 (path \0 size \0 time of the last change in ns \0) ...

The builder is the version of this program that made the file; files of another version are made anew.
Roots are the directories that the user named for the search of debug information. A path is a place that was searched
for such a file; its size is -1 if there was none. Those in the directory of the image are relative to it, so that an
image that moves together with its debug file stays the same; `*.icf` is `app.icf` of `app.exe`.

The symcache is valid as long as no file changed and none has appeared. A file that was removed since does not count:
builders remove their .dwo files all the time, and the facts read from them are still true of this image. An empty file
is as good as none, and stands for one that no server had: it is asked for again from time to time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from icf import __version__
from icf.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from icf.image import AnyImage

SECTION = "sources"
_ABSENT = -1
_ROOT_LIMIT = 64
_SAME_STEM = "*"


class Sought(NamedTuple):
    """An image, and where to search for its debug information."""

    path: str
    debug_file: str | None = None
    debug_roots: tuple[str, ...] = ()

    def open(self) -> AnyImage:
        from icf.debugfiles.opening import open_any

        return open_any(self.path, self.debug_file, self.debug_roots)


class Source(NamedTuple):
    """A place that was searched for a file of debug information, and the file that was there."""

    path: str
    size_bytes: int  # -1: no file
    mtime_ns: int


class Sources(NamedTuple):
    """The section."""

    builder: str
    roots: tuple[str, ...]
    files: tuple[Source, ...]

    @classmethod
    def of(cls, image: AnyImage, started_ns: int) -> Self:
        """Return the files that an image was read with, once all are read.

        A file that changed meanwhile matches no file.
        """
        folder = _folder_of(image.path)
        from icf.pe.sidetable import SUFFIX, side_table_path

        # that of a PDB has the name of the PDB
        own = os.path.abspath(side_table_path(image)) if image.format == "PE" and image.debug is image else ""
        paths = list(image.looked_for)
        if image.debug is not image:
            paths.append(image.debug.path)
        files = []
        for path in dict.fromkeys(map(os.path.abspath, paths)):
            stored = os.path.relpath(path, folder) if path.startswith(os.path.join(folder, "")) else path
            stored = _SAME_STEM + SUFFIX if path == own else stored
            size_bytes, mtime_ns = _stat(path)
            files.append(Source(stored, size_bytes, mtime_ns if mtime_ns <= started_ns else -1))
        return cls(__version__, tuple(map(os.path.abspath, image.debug_roots)), tuple(files))

    @classmethod
    def parse(cls, section: memoryview, path: str) -> Self:
        """Read the section of the symcache at `path`. Raise FormatError."""
        fields = os.fsdecode(bytes(section)).split("\0")
        try:
            builder, count = fields[0], int(fields[1])
            end = 2 + count
            if not 0 <= count <= _ROOT_LIMIT or len(fields) < end or (len(fields) - 1 - end) % 3 or fields[-1]:
                raise ValueError
            rows = zip(fields[end:-1:3], fields[end + 1 : -1 : 3], fields[end + 2 : -1 : 3], strict=True)
            return cls(builder, tuple(fields[2:end]), tuple(Source(name, int(a), int(b)) for name, a, b in rows))
        except (ValueError, IndexError):
            raise FormatError(path, SECTION, 0, "is not a list of sources") from None

    def pack(self) -> bytes:
        fields = [self.builder, str(len(self.roots)), *self.roots]
        for each in self.files:
            fields += [each.path, str(each.size_bytes), str(each.mtime_ns)]
        return os.fsencode("".join(f"{field}\0" for field in fields))

    def problem(self, image_path: str, debug_file: str | None, roots: Sequence[str]) -> str:
        """Return the reason why reading the image with these options would yield another result.

        Empty if it would not.
        """
        if self.builder != __version__:
            return f"was made by version {self.builder}"
        lacks = False
        for each in self.files:
            path = _place(each, image_path)
            size_bytes, mtime_ns = _stat(path)
            was_absent = each.size_bytes <= 0
            if size_bytes == _ABSENT or (was_absent and not size_bytes):
                if was_absent and _appears(path):
                    return f"{path} was not there"
                lacks = lacks or was_absent
            elif was_absent:
                return f"{path} was not there"
            elif (size_bytes, mtime_ns) != (each.size_bytes, each.mtime_ns):
                return f"{path} has changed"
        if debug_file is not None and not self._has(image_path, os.path.abspath(debug_file)):
            return f"was made without {debug_file}"
        if lacks and not set(map(os.path.abspath, roots)) <= set(self.roots):
            return "was built without a --debug-root that is given now, and some debug files were missing"
        return ""

    def problem_elsewhere(self, image_path: str, debug_file: str | None) -> str:
        """Return what `problem` returns, for a file made on another machine: this compares sizes and not times."""
        if self.builder != __version__:
            return f"was made by version {self.builder}"
        for each in self.files:
            path = _place(each, image_path)
            size_bytes, _ = _stat(path)
            if size_bytes > 0 and size_bytes != each.size_bytes or (not size_bytes and each.size_bytes > 0):
                return f"{path} was not there" if each.size_bytes <= 0 else f"{path} has another size"
        if debug_file is not None:
            size_bytes, _ = _stat(debug_file)
            if all(each.size_bytes != size_bytes for each in self.files):
                return f"was made without {debug_file}"
        return ""

    def _has(self, image_path: str, path: str) -> bool:
        return any(_place(each, image_path) == path and each.size_bytes != _ABSENT for each in self.files)


def _place(source: Source, image_path: str) -> str:
    """Return where a source of an image is."""
    if source.path.startswith(_SAME_STEM):
        return _stem(image_path) + source.path.removeprefix(_SAME_STEM)
    return os.path.join(_folder_of(image_path), source.path)


def _stem(path: str) -> str:
    return os.path.splitext(os.path.realpath(path))[0]


def _folder_of(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))


def _appears(path: str) -> bool:
    """Return whether a server has a file that was missing."""
    if os.environ.get("DEBUGINFOD_URLS"):  # most users have neither: nothing to import
        from icf.remote import debuginfod

        if debuginfod.appears(path):
            return True
    if os.environ.get("_NT_SYMBOL_PATH"):
        from icf.remote import symbolserver

        return symbolserver.appears(path)
    return False


def _stat(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return _ABSENT, 0
    return status.st_size, status.st_mtime_ns
