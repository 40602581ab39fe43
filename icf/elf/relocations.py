"""A relocation section as columns that are views of the image's bytes.

`r_info` is two 32-bit halves on both machines, so that no column needs to be computed. Symbol
indices are checked against their table once, on the first use of the column: code that indexes
a symbol column with them stays in bounds.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from icf.columns import I64, U32, U64
from icf.elf.headers import SECTION_HEADERS
from icf.elf.types import RELA_SIZE_BYTES, SHDR, SHT_RELA, Section
from icf.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from icf.elf.file import ElfFile
    from icf.elf.symbols import Symbols

RELA = np.dtype([("r_offset", "<u8"), ("r_type", "<u4"), ("r_sym", "<u4"), ("r_addend", "<i8")])


class Relocations:
    """The relocations of one section, in file order."""

    def __init__(self, image: ElfFile, section: Section, count: int, symbols_of: Callable[[int], Symbols]) -> None:
        self.section = section
        self.count = count
        self._image = image
        self._symbols_of = symbols_of

    def __len__(self) -> int:
        return self.count

    @cached_property
    def _raw(self) -> npt.NDArray[np.void]:
        return np.frombuffer(self._image.contents(self.section), dtype=RELA)

    @property
    def offset(self) -> U64:
        """`r_offset`: an address in a linked image, a section offset in an object or a debug section."""
        return self._raw["r_offset"]

    @property
    def type(self) -> U32:
        """The machine's relocation type."""
        return self._raw["r_type"]

    @property
    def addend(self) -> I64:
        """`r_addend`."""
        return self._raw["r_addend"]

    @cached_property
    def symbol(self) -> U32:
        """Row in `symbols`; 0 is the null symbol."""
        column = self._raw["r_sym"]
        limit = max(self.symbols.count, 1)
        if self.count and int(column.max()) >= limit:
            row = int(np.argmax(column >= limit))
            raise FormatError(
                self._image.path,
                self.section.name,
                row * RELA_SIZE_BYTES,
                f"relocation names symbol {int(column[row])}, its table has {self.symbols.count}",
            )
        return column

    @cached_property
    def symbols(self) -> Symbols:
        """The symbol table that the section is linked to."""
        return self._symbols_of(self.section.link)


def read_relocations(image: ElfFile, section: Section, symbols_of: Callable[[int], Symbols]) -> Relocations:
    """Return the relocations stored in `section`; `symbols_of` reads the symbol table of a section."""
    if section.type != SHT_RELA:
        raise UnsupportedError(
            f"{image.path}: {section.name}: section type {section.type} is not handled, SHT_RELA (4) is"
        )
    size_bytes = image.contents_size_bytes(section)
    if section.entsize != RELA_SIZE_BYTES or size_bytes % RELA_SIZE_BYTES:
        raise FormatError(
            image.path,
            SECTION_HEADERS,
            image.headers.shoff + section.index * SHDR.size,
            f"relocation section {section.name} has {size_bytes} bytes in entries of {section.entsize}, "
            f"must be entries of {RELA_SIZE_BYTES}",
        )
    return Relocations(image, section, size_bytes // RELA_SIZE_BYTES, symbols_of)
