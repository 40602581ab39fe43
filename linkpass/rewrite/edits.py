"""The requests of a rewrite, and the sections that result."""

from __future__ import annotations

from typing import NamedTuple

from icf.elf.types import SHT_PROGBITS, Section


class SectionEdit(NamedTuple):
    """A section that is not loaded, to add or to replace."""

    name: str
    content: bytes | bytearray | memoryview
    align: int = 1
    sh_type: int = SHT_PROGBITS
    flags: int = 0
    entsize: int = 0
    link: str = ""  # the section that sh_link names
    info: str = ""  # the section that sh_info names


class SectionGrowth(NamedTuple):
    """Bytes to put at the end of an existing section that is not loaded.

    A compressed section is inflated first and compressed again. With `keep_bytes` only that much of the old
    (inflated) contents stays, which is how an earlier tail is replaced instead of repeated.
    """

    name: str
    tail: bytes | bytearray | memoryview
    keep_bytes: int | None = None


class Entry:
    """One section: its future header, the one in the input, and its contents where they are new."""

    __slots__ = ("before", "content", "edit", "name_offset", "section", "tail")

    def __init__(
        self,
        section: Section,
        before: Section | None,
        name_offset: int,
        content: bytes | memoryview | None = None,
        edit: SectionEdit | None = None,
    ) -> None:
        self.section = section
        self.before = before
        self.name_offset = name_offset
        self.content = content
        self.edit = edit
        self.tail: bytes | memoryview | None = None  # follows so much of the old contents that the size comes out right
