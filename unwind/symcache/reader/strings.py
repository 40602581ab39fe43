"""The names and paths of a symcache by their numbers, read in place and kept once they were asked for."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from icf.errors import FormatError
from unwind.symcache.format.records import NAME_BITS, NAME_COUNT

if TYPE_CHECKING:
    from unwind.symcache.format.container import Container

STRING_ERRORS = "surrogateescape"  # names and paths may be any bytes


class Strings:
    """The strings of an open file: `name_count` linkage names and `file_count` paths of source files."""

    def __init__(self, container: Container, name_count: int, file_count: int) -> None:
        self.name_count, self.file_count = name_count, file_count
        self._container = container
        self._texts: dict[int, list[str]] = {}  # by block
        self._paths: dict[int, str] = {}

    def text(self, number: int) -> str:
        """Return the name of a number.

        Args:
            number: as records have it; 0 is none.

        Returns:
            The linkage name; "" for 0.

        Raises:
            FormatError: there is no such name, or its block is damaged.
        """
        block = number >> NAME_BITS
        texts = self._texts.get(block)
        if texts is None:
            texts = self._texts[block] = self._read_names(block)
        try:
            return texts[number & NAME_COUNT - 1]
        except IndexError:
            raise self._error("records", 0, f"name {number} is none of {self.name_count}") from None

    def _read_names(self, block: int) -> list[str]:
        count = min(NAME_COUNT, self.name_count - (block << NAME_BITS))
        if count <= 0:
            return []
        start, end = self._container.piece("nameoff", 4 * block, 8).cast("I")
        try:
            names = zlib.decompress(self._container.piece("names", start, end - start))
        except zlib.error as error:
            raise self._error("names", start, f"names cannot be decompressed: {error}") from error
        texts = str(names, "utf-8", STRING_ERRORS).split("\0")
        if texts.pop() or len(texts) != count:
            raise self._error("names", start, f"block of names has {len(texts)}, must have {count}")
        return texts

    def path_of(self, number: int) -> str:
        """Return the path of a number.

        Args:
            number: as records have it; 0 is none.

        Returns:
            The path of a source file; "" for 0.

        Raises:
            FormatError: there is no such path.
        """
        path = self._paths.get(number)
        if path is None:
            if number >= self.file_count:
                raise self._error("records", 0, f"file {number} is none of {self.file_count}")
            directory, base = self._container.piece("fileoff", 8 * number, 8).cast("I")
            path = self._paths[number] = self._string("files", directory) + self._string("files", base)
        return path

    def _string(self, section: str, start: int) -> str:
        limit = self._container.section_size_bytes(section)
        step = 128
        while start < limit:
            piece = bytes(self._container.piece(section, start, min(step, limit - start)))
            end = piece.find(0)
            if end >= 0:
                return str(piece[:end], "utf-8", STRING_ERRORS)
            if step >= limit - start:
                break
            step *= 4
        raise self._error(section, start, "string has no end")

    def _error(self, section: str, offset: int, problem: str) -> FormatError:
        return FormatError(self._container.path, section, offset, problem)
