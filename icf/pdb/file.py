"""A PDB: what it identifies, its modules, public symbols, strings and types.

    with Pdb.open("shop.pdb") as pdb:
        for module in pdb.dbi.modules:
            symbols = pdb.symbols_of(module)

Opening reads the superblock and two small streams; a stream is read when it is asked for, once. Addresses are
`segment:offset` in the file; `rvas` turns them into offsets from where the image is loaded.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np

from icf.columns import I64, U64
from icf.contents import string_at
from icf.errors import FormatError
from icf.pdb import columns as col
from icf.pdb.crossreferences import CrossReferences
from icf.pdb.dbi import NO_STREAM, STREAM, Module, Section, parse_dbi, parse_sections
from icf.pdb.info import STREAM as INFO_STREAM
from icf.pdb.info import parse_info
from icf.pdb.module import Lines, Symbols, is_described, read_lines, read_publics, read_symbols
from icf.pdb.msf import Msf
from icf.pdb.types import IDS, TYPES, Records, Types

_STRINGS_HEADER_BYTES = 12
_STRINGS_SIGNATURE = 0xEFFEEFFE
NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)


class Pdb:
    """One file; use `open`."""

    def __init__(self, msf: Msf) -> None:
        self._msf = msf
        self.path = msf.path
        self.data = msf.data
        self.info = parse_info(msf.stream(INFO_STREAM), msf.path)
        self.dbi = parse_dbi(msf.stream(STREAM), msf.path)
        self._streams: dict[int, memoryview] = {}

    @classmethod
    def open(cls, path: str) -> Self:
        """Open a file; close it, or use it in a `with` block. Raise IcfError if it is not a PDB that can be read."""
        msf = Msf.open(path)
        try:
            return cls(msf)
        except BaseException:
            msf.close()
            raise

    def close(self) -> None:
        """Close the file; what was read stays valid."""
        self._msf.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def key(self) -> bytes:
        """What identifies the link: the GUID as the image has it, and the age of the DBI stream."""
        return self.info.guid + self.dbi.age.to_bytes(4, "little")

    def stream(self, number: int) -> memoryview:
        """Return a stream, empty if there is none of that number."""
        if number not in self._streams:
            self._streams[number] = self._msf.stream(number)
        return self._streams[number]

    # Addresses

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The sections of the image, the first has the segment number 1."""
        return parse_sections(self.stream(self.dbi.section_stream), self.path)

    def rvas(self, segments: U64, offsets: U64) -> U64:
        """Return the offsets from where the image is loaded, NOWHERE for what is in none of its sections."""
        starts = np.array([0, *(section.rva for section in self.sections)], np.uint64)
        sizes = np.array([0, *(section.size_bytes for section in self.sections)], np.uint64)
        at = np.where(segments < np.uint64(len(starts)), segments, np.uint64(0)).astype(np.intp)
        return np.where(offsets < sizes[at], starts[at] + offsets, NOWHERE)

    # Symbols and lines

    def symbols_of(self, module: Module) -> Symbols:
        """Return the procedures of a module."""
        return read_symbols(self.stream(module.stream), module, self.path)

    def lines_of(self, module: Module, symbols: Symbols) -> Lines:
        """Return the lines of a module."""
        return read_lines(self.stream(module.stream), module, symbols, self.path)

    @cached_property
    def publics(self) -> U64:
        """The public symbols; `icf.pdb.columns` has the columns."""
        return read_publics(self.stream(self.dbi.symbol_stream), self.path)

    def is_described(self, module: Module) -> bool:
        """Return whether a compiler described the module: else it may have functions that are in no record."""
        return module.stream != NO_STREAM and is_described(self.stream(module.stream), module, self.path)

    # Strings

    def text(self, stream: int, offset: int, size_bytes: int) -> str:
        """Return the name in a record of a stream."""
        return bytes(self.stream(stream)[offset : offset + size_bytes]).decode("utf-8", "surrogateescape")

    def public_names(self, rows: I64 | slice) -> list[str]:
        """Return the linkage names of some public symbols."""
        return self.names(self.dbi.symbol_stream, self.publics[rows][:, [col.U_NAME, col.U_NAME_BYTES]])

    def names(self, stream: int, places: U64) -> list[str]:
        """Return names in a stream, by their offsets and sizes."""
        whole = self.stream(stream)
        return [
            bytes(whole[at : at + size_bytes]).decode("utf-8", "surrogateescape") for at, size_bytes in places.tolist()
        ]

    @cached_property
    def types(self) -> Types:
        """Types, and names of inlined functions."""
        types, ids = (Records(self.stream(number), self.path, name) for number, name in ((TYPES, "TPI"), (IDS, "IPI")))
        return Types(types, ids)

    @cached_property
    def _cross_references(self) -> CrossReferences:
        return CrossReferences(self.dbi.modules, self.stream, self.string, self.path)

    @cached_property
    def _strings(self) -> memoryview:
        stream = self.stream(self.info.streams.get("/names", NO_STREAM))
        if not len(stream):
            return stream
        if len(stream) < _STRINGS_HEADER_BYTES or int.from_bytes(stream[:4], "little") != _STRINGS_SIGNATURE:
            raise FormatError(self.path, "/names", 0, f"does not begin with {_STRINGS_SIGNATURE:#x}")
        size_bytes = int.from_bytes(stream[8:12], "little")
        return stream[_STRINGS_HEADER_BYTES : _STRINGS_HEADER_BYTES + size_bytes]

    def string(self, offset: int) -> str:
        """Return a string of the table that all modules share; "" if it has none there."""
        return (string_at(self._strings, offset) or b"").decode("utf-8", "surrogateescape")

    def file_name(self, files: memoryview, file: int) -> str:
        """Return the path of a file of a module: `files` is its table; "" if the table has none there."""
        return self.string(int.from_bytes(files[file : file + 4], "little")) if file + 4 <= len(files) else ""

    def inlined_name(self, module: Module, number: int) -> str:
        """Return the name of an inlined function with its scopes; "" if it has none.

        Args:
            module: with the inlined call.
            number: that this module has for the function.

        Raises:
            FormatError: a table of functions of other modules breaks the format.
        """
        return self.types.function_name(self._cross_references.find(module, number))
