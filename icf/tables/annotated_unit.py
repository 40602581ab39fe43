"""What `icf.tables.annotation` has put into objects, read from a linked image."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from icf.columns import U32, U64
from icf.elf.compression import inflate
from icf.errors import FormatError
from icf.reader import Reader
from icf.tables import ANNOTATION_SECTION, _leb
from icf.tables.annotation import VERSION, Function, Operand

_FUNCTION_COLUMNS = 6


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
