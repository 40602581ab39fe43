"""`.line.icf_dcall`: what an object records of its functions and calls, kept through the link by `icf annotate`.

An object's relocations name the callee of every call, and of every function that the linker will fold away. This
section carries that into the linked image, so that the pass needs neither objects nor debug information. No other tool
writes it: the pass turns it into the proposal's tables and removes it.

**The name.** A linker must put the folded address into a reference from this section to a folded function, and
must accept a function that it has discarded. Measured with gold 1.16, lld 19, mold 1.10 and GNU ld 2.40: lld and mold
overwrite references from sections named `.debug*`; gold and GNU ld refuse references to discarded functions except
from sections that they take for debug information: `.debug*`, `.line*` and `.stab*`. So all four treat a
section named `.line.*` right: kept functions have their address, folded ones that of their
body, discarded ones nothing or 0. `strip -g` takes it for debug information, too. It is not SHF_ALLOC.

One unit for each object, little endian, one after the other as the linker has put them together:

    unit_length     4 bytes
    version         1 byte, 1
    function_count  4 bytes
    addresses       8 bytes for each function: a relocation for the function's symbol; 0 if it is not in the image
    the rest        "ZLIB", its size as 8 bytes, big endian, zlib data (only addresses must stand open to the linker)

The rest, one column after the other, all ULEB128 unless noted:

    source, alias_total, operand_total, pool_size                      one each
    name, size << 1 | is_local, section, offset, alias_count, operand_count     one for each function
    checksum        4 bytes for each function: CRC-32 of its code, operands taken for 0
    alias           one for each alias: its name
    operand         distance << 2 | kind: from the last operand of the function, or its start
    callee          0: not a call; else (name + 1) << 1 | is_local
    pool            strings, each with its NUL; names and the source file are offsets into it

An operand is a field that a relocation fills in, so the linker may change the bytes around it:

    kind 0  4 bytes       1  4 bytes and 3 before: a load from the GOT, which may turn into another instruction
    kind 2  8 bytes       3  12 bytes and 8 before: a thread-local sequence, which may change, too

`section` and `offset` tell where in the object the function was; the numbers have no other meaning. Functions of one
section keep their distances, which identifies the callee of a call that the assembler has resolved.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from icf.columns import U32, U64
from icf.elf.compression import inflate
from icf.errors import FormatError
from icf.reader import Reader
from icf.tables import ANNOTATION_SECTION, _leb

VERSION = 1
ADDRESSES_AT = 9  # of the first address in a unit
FIELD, GOT_FIELD, WIDE_FIELD, THREAD_FIELD = range(4)
_AROUND = ((0, 4), (3, 4), (0, 8), (8, 12))  # bytes before and after the start of an operand, by kind
_FUNCTION_COLUMNS = 6


class Operand(NamedTuple):
    """A relocated field of a function."""

    offset: int  # from the start of the function
    kind: int
    callee: str = ""  # of a call or jump
    is_local: bool = False  # the callee is a local function of the same object


@dataclass(frozen=True, slots=True)
class Function:
    """A function of an object."""

    name: str
    aliases: tuple[str, ...]
    is_local: bool
    size_bytes: int
    section: int
    offset: int
    checksum: int
    operands: tuple[Operand, ...]  # ascending

    def checksum_of(self, code: bytes | memoryview) -> int:
        """Return the checksum of other code with this function's operands."""
        return checksum(code, self.operands)


def checksum(code: bytes | memoryview, operands: Sequence[Operand]) -> int:
    """Return the CRC-32 of a function's code without what a linker may change."""
    masked = bytearray(code)
    for operand in operands:
        before, after = _AROUND[operand.kind]
        start, end = max(operand.offset - before, 0), min(operand.offset + after, len(masked))
        masked[start:end] = bytes(max(end - start, 0))
    return zlib.crc32(masked)


def encode_annotation(source: str, functions: Sequence[Function]) -> bytes:
    """Return the unit of one object; its addresses are 0, to be filled by relocations at ADDRESSES_AT + 8 * index."""
    pool = _Pool()
    operands = [operand for function in functions for operand in function.operands]
    columns: list[list[int]] = [
        [pool.add(source), sum(len(function.aliases) for function in functions), len(operands)],
        [pool.add(function.name) for function in functions],
        [function.size_bytes << 1 | function.is_local for function in functions],
        [function.section for function in functions],
        [function.offset for function in functions],
        [len(function.aliases) for function in functions],
        [len(function.operands) for function in functions],
    ]
    aliases = [pool.add(alias) for function in functions for alias in function.aliases]
    steps = [
        (operand.offset - (function.operands[idx - 1].offset if idx else 0)) << 2 | operand.kind
        for function in functions
        for idx, operand in enumerate(function.operands)
    ]
    callees = [(pool.add(o.callee) + 1) << 1 | o.is_local if o.callee else 0 for o in operands]
    columns[0].append(len(pool.text))
    checksums = np.array([function.checksum for function in functions], "<u4").tobytes()
    head = b"".join(map(_ulebs, columns))
    rest = head + checksums + b"".join(map(_ulebs, (aliases, steps, callees))) + bytes(pool.text)
    packed = b"ZLIB" + len(rest).to_bytes(8, "big") + zlib.compress(rest, 6)
    body = bytes([VERSION]) + len(functions).to_bytes(4, "little") + bytes(8 * len(functions)) + packed
    return len(body).to_bytes(4, "little") + body


class AnnotatedUnit:
    """The functions of one object as they are in the image; a function is given by its index."""

    def __init__(self, addresses: U64, columns: _Columns) -> None:
        self.address = addresses  # 0: not in the image
        count = len(addresses)
        source, alias_total, operand_total, pool_size_bytes = columns.ulebs(4).tolist()
        name, size, self.section, self.offset, aliases, operands = (
            columns.ulebs(count) for _ in range(_FUNCTION_COLUMNS)
        )
        self._checksums = columns.words(count)
        self._alias, self._alias_start = columns.ulebs(alias_total), columns.starts(aliases, alias_total)
        self._step, self._operand_start = columns.ulebs(operand_total), columns.starts(operands, operand_total)
        self._callee = columns.ulebs(operand_total)
        self._pool = columns.pool(pool_size_bytes)
        self._name, self.size_bytes, self.is_local = name, size >> np.uint64(1), (size & np.uint64(1)) != 0
        columns.check_names(np.concatenate([name, self._alias, np.array([source], np.uint64)]), pool_size_bytes)
        named = self._callee[self._callee != 0]
        columns.check_names((named >> np.uint64(1)) - np.uint64(1), pool_size_bytes)
        self.source = self._string(source)

    def name(self, idx: int) -> str:
        """Return a function's name."""
        return self._string(int(self._name[idx]))

    def function(self, idx: int) -> Function:
        """Return all that is known of a function."""
        first, end = self._alias_start[idx : idx + 2].tolist()
        return Function(
            self.name(idx),
            tuple(self._string(offset) for offset in self._alias[first:end].tolist()),
            bool(self.is_local[idx]),
            int(self.size_bytes[idx]),
            int(self.section[idx]),
            int(self.offset[idx]),
            int(self._checksums[idx]),
            tuple(self._operands(idx)),
        )

    def _operands(self, idx: int) -> Iterator[Operand]:
        first, end = self._operand_start[idx : idx + 2].tolist()
        offset = 0
        for step, callee in zip(self._step[first:end].tolist(), self._callee[first:end].tolist(), strict=True):
            offset += step >> 2
            name = self._string((callee >> 1) - 1) if callee else ""
            yield Operand(offset, step & 3, name, bool(callee & 1))

    def _string(self, offset: int) -> str:
        return self._pool[offset : self._pool.index(0, offset)].decode("utf-8", "surrogateescape")


def parse_annotations(buffer: memoryview, path: str, section: str = ANNOTATION_SECTION) -> list[AnnotatedUnit]:
    """Return the units of all annotated objects, in link order."""
    reader = Reader(buffer, path, section)
    units = []
    while reader.remaining:
        offset = reader.pos
        unit_length = reader.u32()
        if unit_length > reader.remaining:
            raise reader.error(f"unit length is {unit_length}, {reader.remaining} bytes are left", offset)
        end = reader.pos + unit_length
        version = reader.u8() if unit_length else 0
        if version != VERSION:
            raise reader.error(f"unit has version {version}, only {VERSION} is known", offset + 4)
        function_count = reader.u32()
        if 8 * function_count > end - reader.pos:
            raise reader.error(f"unit counts {function_count} functions, {end - reader.pos} bytes are left", offset + 5)
        addresses = np.frombuffer(reader.take(8 * function_count), "<u8").astype(np.uint64)
        rest = inflate(reader.take(end - reader.pos), path, section, gnu=True)
        units.append(AnnotatedUnit(addresses, _Columns(memoryview(rest), path, section, offset)))
    return units


class _Columns:
    """Reads the inflated part of a unit; its errors name the unit, whose bytes are all that a file has."""

    def __init__(self, rest: memoryview, path: str, section: str, offset: int) -> None:
        self._rest, self._at = rest, 0
        self._path, self._section, self._offset = path, section, offset

    def error(self, problem: str) -> FormatError:
        return FormatError(self._path, self._section, self._offset, f"annotation of an object: {problem}")

    def ulebs(self, count: int) -> U64:
        if count > len(self._rest) - self._at:
            raise self.error(f"{count} numbers in {len(self._rest) - self._at} bytes")
        values = np.empty(count, np.uint64)
        reached = _leb.uleb_run(self._rest, self._at, len(self._rest), values.data)
        if reached < 0:
            raise self.error("a number has no end, or does not fit 64 bits")
        self._at = reached
        return values

    def words(self, count: int) -> U32:
        end = self._at + 4 * count
        if end > len(self._rest):
            raise self.error(f"{count} checksums in {len(self._rest) - self._at} bytes")
        words = np.frombuffer(self._rest[self._at : end], "<u4").astype(np.uint32)
        self._at = end
        return words

    def starts(self, counts: U64, total: int) -> U64:
        """Return where the part of each function starts in a column, and where the last one ends."""
        starts = np.zeros(len(counts) + 1, np.uint64)
        np.cumsum(counts, out=starts[1:])
        if len(counts) and int(counts.max()) > total or int(starts[-1]) != total:
            raise self.error(f"parts of functions do not add up to {total}")
        return starts

    def pool(self, size_bytes: int) -> bytes:
        if size_bytes != len(self._rest) - self._at or (size_bytes and self._rest[-1]):
            raise self.error(f"strings of {size_bytes} bytes, {len(self._rest) - self._at} are left")
        return bytes(self._rest[self._at :])

    def check_names(self, offsets: U64, pool_size_bytes: int) -> None:
        if len(offsets) and int(offsets.max()) >= pool_size_bytes:
            raise self.error(f"name at {int(offsets.max())} of {pool_size_bytes} bytes")


class _Pool:
    """Strings, each once."""

    def __init__(self) -> None:
        self.text = bytearray()
        self._offset: dict[str, int] = {}

    def add(self, text: str) -> int:
        offset = self._offset.get(text)
        if offset is None:
            offset = self._offset[text] = len(self.text)
            self.text += text.encode("utf-8", "surrogateescape") + b"\0"
        return offset


def _ulebs(values: Sequence[int]) -> bytes:
    out = np.empty(10 * len(values), np.uint8)
    column = np.array(values, np.uint64)
    return out[: _leb.uleb_write(column.data, out.data)].tobytes() if len(values) else b""
