"""CIEs and FDEs of `.eh_frame` (LSB Core, 10.6) and `.debug_frame` (DWARF 5, 6.4.1).

    CIE  length | id | version | augmentation string | v4: address size, segment size | code and data alignment,
         register of the return address | augmentation data | instructions
    FDE  length | place of the CIE | first address, size of the range | augmentation data | instructions

                        .eh_frame                           .debug_frame
    id of a CIE         0                                   all ones
    place of the CIE    from its own field backwards        from the start of the section
    first address       as the augmentation R encodes it    a word

An augmentation is a string of letters: z (data follow, their size first), R (how addresses are encoded), P (a
personality routine), L (how the pointer to the exception table is encoded), S (the frame of a signal handler's caller:
its caller's address is a program counter), B (return addresses are signed with the other key), G (tagged stack).
"""

from __future__ import annotations

from dataclasses import dataclass

from icf.dwarf.cfi.pointers import OMITTED, read_pointer, read_value, skip_pointer
from icf.elf.types import Machine
from icf.errors import FormatError
from icf.reader import Reader

_ESCAPE_64, _FIRST_RESERVED = 0xFFFFFFFF, 0xFFFFFFF0
_ADDRESS_BYTES = 8
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class FrameSection:
    """One `.eh_frame` or `.debug_frame`."""

    path: str
    name: str
    data: memoryview
    vaddr: int
    machine: Machine

    @property
    def is_eh(self) -> bool:
        return self.name == ".eh_frame"

    def reader(self, start: int, end: int | None = None) -> Reader:
        """Return a reader that stands at an offset of the section."""
        return Reader(self.data, self.path, self.name, start, end)

    def error(self, offset: int, problem: str) -> FormatError:
        """Return the error to raise for what stands at an offset."""
        return FormatError(self.path, self.name, offset, problem)


@dataclass(frozen=True, slots=True)
class Cie:
    """What many FDEs have in common."""

    offset: int
    augmentation: str
    code_align: int
    data_align: int
    return_address: int  # register
    encoding: int  # of the addresses of its FDEs
    start: int  # of the instructions
    end: int
    table_encoding: int = OMITTED  # of the addresses of tables with landing pads

    @property
    def is_signal_frame(self) -> bool:
        return "S" in self.augmentation


@dataclass(frozen=True, slots=True)
class Fde:
    """The frames of the code from `low` to `high`."""

    offset: int
    cie_offset: int
    low: int
    high: int
    start: int  # of the instructions
    end: int
    data_at: int = 0  # of the augmentation data, 0 for none


@dataclass(frozen=True, slots=True)
class Entry:
    """The head of a CIE or FDE; `cie_offset` is None for a CIE."""

    offset: int
    cie_offset: int | None
    start: int  # after the head
    end: int


def read_entry(section: FrameSection, offset: int) -> Entry | None:
    """Return the entry at an offset; None at the end of the section."""
    reader = section.reader(offset)
    if not reader.remaining:
        return None
    size_bytes, is_64 = reader.u32(), False
    if size_bytes == _ESCAPE_64:
        size_bytes, is_64 = reader.u64(), True
    elif size_bytes >= _FIRST_RESERVED:
        raise reader.error(f"entry has the reserved length {size_bytes:#x}", offset)
    if size_bytes == 0:
        return Entry(offset, None, reader.pos, reader.pos)
    if size_bytes > reader.remaining:
        raise reader.error(f"entry of {size_bytes} bytes, {reader.remaining} are left", offset)
    end = reader.pos + size_bytes
    reader.end = end
    id_bytes = 8 if is_64 and not section.is_eh else 4
    id_at = reader.pos
    value = reader.uint(id_bytes)
    if value == (0 if section.is_eh else (1 << 8 * id_bytes) - 1):
        return Entry(offset, None, reader.pos, end)
    cie_offset = id_at - value if section.is_eh else value
    if not 0 <= cie_offset < len(section.data):
        raise reader.error(f"FDE whose CIE is {value:#x} away, outside of the section", id_at)
    return Entry(offset, cie_offset, reader.pos, end)


def read_cie(section: FrameSection, offset: int) -> Cie:
    """Return the CIE at an offset; raises `FormatError` for one that cannot be understood."""
    entry = read_entry(section, offset)
    if entry is None or entry.cie_offset is not None or entry.start == entry.end:
        raise section.error(offset, "is not a CIE")
    reader = section.reader(entry.start, entry.end)
    version = reader.u8()
    if version not in ((1, 3) if section.is_eh else (1, 3, 4)):
        raise reader.error(f"CIE has version {version}", entry.start)
    augmentation_at = reader.pos
    augmentation = reader.cstring().decode("latin-1")
    if version == 4:
        sizes = reader.u8(), reader.u8()
        if sizes != (_ADDRESS_BYTES, 0):
            raise reader.error(f"CIE has addresses of {sizes[0]} bytes and segments of {sizes[1]}", reader.pos - 2)
    code_align, data_align = reader.uleb(), reader.sleb()
    return_address = reader.u8() if version == 1 else reader.uleb()
    encoding, table_encoding = 0, OMITTED
    if augmentation.startswith("z"):
        size_bytes = reader.uleb()
        if size_bytes > reader.remaining:
            raise reader.error(f"augmentation of {size_bytes} bytes, {reader.remaining} are left")
        start = reader.pos + size_bytes
        for letter in augmentation[1:]:
            if letter == "R":
                encoding = reader.u8()
            elif letter == "L":
                table_encoding = reader.u8()
            elif letter == "P":
                skip_pointer(reader, reader.u8(), section.vaddr)
            elif letter not in "SBG":
                raise reader.error(f"CIE has the unknown augmentation {augmentation!r}", augmentation_at)
        if reader.pos > start:
            raise reader.error(f"augmentation data are longer than {size_bytes} bytes", start - size_bytes)
        reader.pos = start
    elif augmentation:
        raise reader.error(f"CIE has the unknown augmentation {augmentation!r}", augmentation_at)
    if encoding == OMITTED:
        raise reader.error("CIE whose FDEs have no address")
    return Cie(
        offset, augmentation, code_align, data_align, return_address, encoding, reader.pos, entry.end, table_encoding
    )


def read_fde(section: FrameSection, entry: Entry, cie: Cie) -> Fde:
    """Return the FDE with that head."""
    assert entry.cie_offset is not None
    reader = section.reader(entry.start, entry.end)
    low = read_pointer(reader, cie.encoding, section.vaddr)
    size_bytes = read_value(reader, cie.encoding & 0xF) & _MASK
    if low + size_bytes > 1 << 64:
        raise reader.error(f"FDE of {size_bytes:#x} bytes at {low:#x} ends outside of the address space", entry.start)
    data_at = 0
    if cie.augmentation.startswith("z"):
        data_bytes = reader.uleb()
        data_at = reader.pos if data_bytes else 0
        reader.take(data_bytes)
    return Fde(entry.offset, entry.cie_offset, low, low + size_bytes, reader.pos, entry.end, data_at)
