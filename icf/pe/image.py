"""A PE image: its identity, code, imports, and the PDB or the DWARF that describes it.

    with PeImage.open("app.exe") as image:
        code = image.read(vaddr, 16)
        key = image.build_id            # GUID and age of its PDB

Addresses are those that it was linked for: image base and RVA. `icf.pe.debugfile` finds the PDB and attaches it,
`icf.pe.dwarf` the DWARF in the image itself.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Self

from icf.errors import FormatError
from icf.filebytes import FileBytes
from icf.linkers import UNKNOWN, Linker
from icf.pe.debugdirectory import CODEVIEW, CodeView, parse_codeview, parse_entries
from icf.pe.headers import DEBUG, parse_headers
from icf.reader import Reader

if TYPE_CHECKING:
    from icf.elf.image import Image as ElfImage
    from icf.pdb.file import Pdb
    from icf.pe.headers import PeSection
    from icf.pe.imports import PeExport

DIGEST_BYTES = 16
_BLOB_LIMIT_BYTES = 1 << 16
_JUMP, _JUMP_BYTES = b"\xff\x25", 6  # jmp *disp32(%rip)
_TAIL_CALL_PREFIX = b"\x48"  # REX.W


class PeImage:
    """One PE image; use `open`."""

    format: Literal["PE"] = "PE"

    def __init__(self, path: str, data: FileBytes) -> None:
        self.path = path
        self.data = data
        self.headers = parse_headers(data, path)
        self.machine = self.headers.machine
        self.base = self.headers.base
        self.sections = tuple(sorted(self.headers.sections, key=lambda section: section.vaddr))
        self._starts = [section.vaddr for section in self.sections]
        self.pdb: Pdb | None = None
        self.dwarf: ElfImage | None = None  # this file, as the readers of DWARF want it; only without a PDB
        self.debug_roots: tuple[str, ...] = ()  # directories that are searched for the PDB
        self.looked_for: list[str] = []  # the paths that were searched, whether or not there was a file

    @classmethod
    def open(cls, path: str) -> Self:
        """Open an image; close it, or use it in a `with` block. Raise IcfError if it is not a PE image."""
        return cls.of(path, FileBytes.open(path))

    @classmethod
    def of(cls, path: str, data: FileBytes) -> Self:
        """Take over the bytes of an open file; they are closed if it is not a PE image."""
        with data.closed_on_error():
            return cls(path, data)

    def attach_pdb(self, pdb: Pdb) -> None:
        """Attach the PDB of this image; `close` closes it, too."""
        self.pdb = pdb

    def close(self) -> None:
        """Close the file, and its PDB; views of its bytes stay valid."""
        if self.pdb is not None:
            self.pdb.close()
        self.data.close()

    def fileno(self) -> int:
        """Return the descriptor of the file, which may no longer be the one at `path`."""
        return self.data.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def debug(self) -> PeImage | Pdb:
        """The file with the debug information: the PDB, if there is one."""
        return self if self.pdb is None else self.pdb

    # What it is

    @property
    def linker(self) -> Linker:
        """The linker is not recorded."""
        return UNKNOWN

    @cached_property
    def codeview(self) -> CodeView | None:
        """What names its PDB; None if nothing does."""
        directory = self.headers.directory(DEBUG)
        content = self.read(self.base + directory.rva, directory.size_bytes) if directory.rva else memoryview(b"")
        if len(content) < directory.size_bytes:
            problem = f"{directory.size_bytes} bytes at RVA {directory.rva:#x} are not in a section"
            raise FormatError(self.path, "debug directory", 0, problem)
        for entry, size_bytes, _, pointer in parse_entries(Reader(content, self.path, "debug directory")):
            if entry.type == CODEVIEW and size_bytes:
                blob = bytes(self.data[pointer : pointer + min(size_bytes, _BLOB_LIMIT_BYTES)])
                if (found := parse_codeview(blob, self.path)) is not None:
                    return found
        return None

    @cached_property
    def build_id(self) -> bytes:
        """GUID and age of its PDB, which identify the link; empty if it has none."""
        codeview = self.codeview
        return codeview.signature + codeview.age.to_bytes(4, "little") if codeview is not None else b""

    @cached_property
    def code_digest(self) -> bytes:
        """A digest of the sections with code, made as that of ELF images (`icf.elf.codedigest`)."""
        from hashlib import sha256

        state = sha256()
        for section in self.code_sections:
            state.update(section.vaddr.to_bytes(8, "little") + section.size_bytes.to_bytes(8, "little"))
            state.update(self.read(section.vaddr, section.size_bytes))
        return state.digest()[:DIGEST_BYTES]

    # Bytes

    @property
    def backed(self) -> list[tuple[int, int, int]]:
        """The loaded ranges that have bytes in the file, ascending: (start, end, file offset)."""
        return [(each.vaddr, each.vaddr + each.stored_bytes, each.offset) for each in self.sections]

    @property
    def span(self) -> tuple[int, int]:
        """The lowest address that is loaded, and the one after the highest."""
        return self.base, self.base + self.headers.image_size_bytes

    def read(self, vaddr: int, size_bytes: int) -> memoryview:
        """Return the bytes from an address on: `size_bytes`, or fewer where a section or its bytes end."""
        row = bisect_right(self._starts, vaddr) - 1
        if row < 0 or size_bytes <= 0:
            return self.data[:0]
        section = self.sections[row]
        left = section.vaddr + section.stored_bytes - vaddr
        if left <= 0:
            return self.data[:0]
        start = section.offset + vaddr - section.vaddr
        return self.data[start : start + min(size_bytes, left)]

    @property
    def code_sections(self) -> list[PeSection]:
        """The sections with code, by address."""
        return [each for each in self.sections if each.is_code]

    def contents(self, section: PeSection) -> memoryview:
        """Return the bytes of a section that are in the file."""
        return self.read(section.vaddr, section.stored_bytes)

    def code(self) -> list[tuple[int, memoryview]]:
        """Return address and bytes of each section with code."""
        return [(each.vaddr, self.contents(each)) for each in self.code_sections]

    @property
    def text(self) -> tuple[int, int]:
        """The lowest and the highest address that may hold code."""
        code = self.code_sections
        return (code[0].vaddr, code[-1].vaddr + code[-1].size_bytes) if code else (0, 1 << 64)

    def is_code(self, vaddr: int) -> bool:
        """Return whether a section with code has bytes at an address."""
        return any(0 <= vaddr - each.vaddr < each.stored_bytes for each in self.code_sections)

    def may_start_function(self, vaddr: int) -> bool:
        """Return whether a function may start at an address: wherever there is code."""
        return self.is_code(vaddr)

    # Imports and exports

    def _read_rva(self, rva: int, size_bytes: int) -> memoryview:
        return self.read(self.base + rva, size_bytes)

    @cached_property
    def got_imports(self) -> dict[int, str]:
        """The imported function of each slot that the loader fills, by the address of the slot."""
        from icf.pe.imports import find_imports

        found = find_imports(self.headers, self._read_rva, self.path)
        return {self.base + rva: name for rva, name in found.items()}

    @cached_property
    def plt_stubs(self) -> dict[int, str]:
        """The imported function that each stub jumps to, by the address of the stub: `jmp *slot(%rip)`.

        A function that tail-calls an import has the same jump after a prefix, by which Windows knows an epilogue.
        """
        slots, found = self.got_imports, {}
        for start, code in self.code() if slots else ():
            raw = bytes(code)
            at = raw.find(_JUMP)
            while at >= 0:
                end = start + at + _JUMP_BYTES
                slot = end + int.from_bytes(raw[at + 2 : at + _JUMP_BYTES], "little", signed=True)
                if slot in slots and raw[at - 1 : at] != _TAIL_CALL_PREFIX:
                    found[start + at] = slots[slot]
                at = raw.find(_JUMP, at + 1)
        return found

    @cached_property
    def exports(self) -> list[PeExport]:
        """The functions that other images can call: by name, or by number alone."""
        from icf.pe.imports import find_exports

        return find_exports(self.headers, self._read_rva, self.path)
