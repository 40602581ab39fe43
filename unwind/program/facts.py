"""The facts that decoding needs besides the bytes: where code is, and which imports its calls mean.

`ImageFacts` reads an image; a symcache keeps the same facts of one that may be missing (`KeptFacts` in its
`program`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from icf.code.branches import executable_sections
from icf.code.view import CodeView
from icf.columns import U64
from icf.elf.image import Image
from icf.elf.types import SHF_EXECINSTR
from unwind.program.constant_data import find_constants


class CodeFacts(CodeView, Protocol):
    """Code, and what else its meaning depends on."""

    @property
    def text(self) -> tuple[int, int]:
        """The lowest and the highest address that may hold code."""

    @property
    def imports(self) -> Mapping[int, str]:
        """Address of each GOT slot that the loader fills -> the import, `g` or `g@V1`."""

    @property
    def stubs(self) -> Mapping[int, str]:
        """Address of each PLT stub -> the import."""

    def code(self) -> list[tuple[int, memoryview]]:
        """Return address and bytes of each piece of code."""

    def constants(self) -> tuple[U64, U64]:
        """Return places and values of the words in constant data that are addresses of data."""


class ImageFacts:
    """The facts of an image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self.machine = image.machine
        self.read = image.read
        self.may_start_function = image.may_start_function

    @cached_property
    def text(self) -> tuple[int, int]:
        sections = [section for section in self._image.sections if section.flags & SHF_EXECINSTR]
        if not sections:
            return 0, 1 << 64
        return min(part.vaddr for part in sections), max(part.vaddr + part.size_bytes for part in sections)

    @cached_property
    def imports(self) -> Mapping[int, str]:
        versions = self._image.slot_versions
        return {
            slot: f"{name}@{versions[slot]}" if slot in versions else name
            for slot, name in self._image.got_imports.items()
        }

    @cached_property
    def stubs(self) -> Mapping[int, str]:
        names = self._image.plt_stubs
        return {stub: self.imports.get(slot, names[stub]) for stub, slot in self._image.plt_slots.items()}

    def constants(self) -> tuple[U64, U64]:
        return find_constants(self._image)

    def code(self) -> list[tuple[int, memoryview]]:
        """Return address and bytes of each section with code; without section headers, all that the file backs."""
        sections = [(section.vaddr, section.code) for section in executable_sections(self._image)]
        return sections or [(start, self._image.read(start, end - start)) for start, end, _ in self._image.backed]
