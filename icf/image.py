"""What images of every format have in common, and the function that opens one.

    identity    path, machine, linker, build id, digest of the code
    segments    which addresses have bytes in the file, and these bytes
    code        where functions may start
    symbols     functions by address, with their names
    imports     slots that the loader fills, and the stubs that jump through them

There are two formats: ELF (`icf.elf`), and PE (`icf.pe`), whose functions are in a PDB. Code that needs more than this,
sections or relocations, is about ELF and uses its class. What reads PE images is imported at the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Protocol, TypeAlias

from icf.elf.image import Image as ElfImage
from icf.elf.types import Machine
from icf.errors import UnsupportedError
from icf.filebytes import FileBytes
from icf.pe.headers import MAGIC

if TYPE_CHECKING:
    from icf.columns import I64, U64
    from icf.linkers import Linker
    from icf.pe.image import PeImage


class Symbols(Protocol):
    """A symbol table as columns; a row is a symbol."""

    def __len__(self) -> int: ...

    @property
    def value(self) -> U64:
        """Addresses."""

    @property
    def size_bytes(self) -> U64:
        """Sizes; 0 where the table has none."""

    @property
    def functions(self) -> I64:
        """Rows of the functions that the image defines, by (value, row)."""

    def name(self, row: int) -> str:
        """Return the symbol's linkage name."""

    def names(self, rows: Iterable[int]) -> list[str]:
        """Return the names of many symbols."""


class Image(Protocol):
    """An image; addresses are those that it was linked for."""

    path: str
    machine: Machine

    @property
    def linker(self) -> Linker:
        """The linker that made the image; `icf.linkers.UNKNOWN` if the image does not show it."""

    @property
    def build_id(self) -> bytes:
        """The bytes that identify the link; empty if the image has none."""

    @property
    def code_digest(self) -> bytes:
        """A digest of the code; empty in a file without code."""

    @property
    def backed(self) -> list[tuple[int, int, int]]:
        """The loaded ranges that have bytes in the file, ascending: (start, end, file offset)."""

    @property
    def span(self) -> tuple[int, int]:
        """The lowest address that is loaded, and the one after the highest."""

    def read(self, vaddr: int, size_bytes: int) -> memoryview:
        """Return the bytes from an address on.

        Args:
            vaddr: link-time address.
            size_bytes: how many bytes.

        Returns:
            A read-only view of `size_bytes` bytes, or of fewer where the file has a gap; empty if it has none there.

        Raises:
            FormatError: the file was cut short since it was opened.
        """

    def may_start_function(self, vaddr: int) -> bool:
        """Return whether a function may start at an address.

        Args:
            vaddr: link-time address.

        Returns:
            False only if no function starts there; without a symbol table, true wherever there is code.
        """

    @property
    def symbols(self) -> Symbols:
        """The symbols of the image or its debug file."""

    @property
    def got_imports(self) -> dict[int, str]:
        """The imported symbol of each slot that the loader fills, by the address of the slot."""

    @property
    def plt_slots(self) -> dict[int, int]:
        """The address of the slot that each stub of an import jumps through, by the address of the stub."""

    @property
    def plt_stubs(self) -> dict[int, str]:
        """The name of the function that each stub of an import jumps to, by the address of the stub."""

    def close(self) -> None:
        """Close the file; views of its bytes stay valid."""


AnyImage: TypeAlias = "ElfImage | PeImage"


def open_image(path: str) -> ElfImage:
    """Open an ELF image.

    Args:
        path: the file; close the image, or use it in a `with` block.

    Returns:
        The open image, for x86-64 or AArch64.

    Raises:
        FormatError: the headers break the format.
        UnsupportedError: another format, machine or kind of file.
        IcfError: the file cannot be read.
    """
    image = open_any_image(path)
    if image.format == "PE":
        image.close()
        raise UnsupportedError(f"{path}: is a PE image, this reads ELF images")
    return image


def open_any_image(path: str) -> AnyImage:
    """Open an image with the reader for its first bytes, as `open_image` does; also a PE image."""
    data = FileBytes.open(path)
    with data.closed_on_error():
        magic = bytes(data[:2])
    if magic == MAGIC:
        from icf.pe.image import PeImage

        return PeImage.of(path, data)
    return ElfImage.of(path, data)  # it reports what is wrong with the header


def is_pe_file(path: str) -> bool:
    """Return whether a file starts as a PE image. Raises IcfError if it is not a regular file, or empty."""
    with closing(FileBytes.open(path)) as data:
        return bytes(data[:2]) == MAGIC
