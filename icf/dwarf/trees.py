"""Single DIEs with all of their attributes, and the DIEs below them.

The kernels read a few attributes of all DIEs. What belongs to one function (parameters, call sites, types) is the
opposite: all attributes of a few DIEs. So this reader is plain Python, on the units of `icf.dwarf.units.DebugInfo`,
which has those of split DWARF and of supplementary files as well. Forms are those of `icf.dwarf._forms`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from icf.dwarf import columns as col
from icf.dwarf._forms import operations, variant_of
from icf.dwarf.constants import DW_AT_high_pc
from icf.dwarf.units import DebugInfo
from icf.errors import FormatError
from icf.reader import Reader
from icf.string_kinds import IN_INFO, IN_LINE_STR, IN_STR, IN_SUP_STR, STRING_KIND

_IMPLICIT_CONST = 0x21  # DW_FORM_implicit_const
_DEPTH_LIMIT = 512
_DECLARATION_LIMIT = 1 << 16


class Value(NamedTuple):
    """The value of an attribute."""

    kind: int  # one of `columns.CLS_*`
    number: int  # of a block or a string in place, where it starts
    size_bytes: int = 0  # of a block


@dataclass(frozen=True, slots=True, eq=False)
class Die:
    """A DIE; `offset` and `end` count from the start of the first .debug_info, as everywhere in `icf.dwarf`."""

    offset: int
    tag: int
    unit: int  # row
    has_children: bool
    end: int  # of its own bytes
    attributes: dict[int, Value]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A DIE and those below it."""

    die: Die
    children: list[Tree]


class _Unit(NamedTuple):
    """What the bytes of a DIE need of their unit."""

    offset: int
    end: int
    shift: int
    first_die: int
    abbreviations: dict[int, _Declaration]
    columns: list[int]
    variant: int  # of its forms


class _Declaration(NamedTuple):
    tag: int
    has_children: bool
    attributes: list[tuple[int, int, int]]  # attribute, operation, implicit constant


class Trees:
    """Reads DIEs by offset; raises `FormatError` for what breaks its format."""

    def __init__(self, debug: DebugInfo) -> None:
        self.debug = debug
        self._own_info = debug.info[:]
        self._starts: list[int] = debug.units[:, col.OFFSET].tolist()
        self._units: dict[int, _Unit] = {}
        self._tables: dict[tuple[int, int], dict[int, _Declaration]] = {}

    def unit_die(self, unit: int) -> Die:
        """Return the DIE of a unit itself."""
        return self._read(self._unit(unit), unit, self._unit(unit).first_die)

    def die(self, offset: int) -> Die:
        """Return the DIE at an offset."""
        unit = self._unit_of(offset)
        return self._read(self._unit(unit), unit, offset)

    def tree(self, offset: int, limit: int) -> Tree:
        """Return the DIE at an offset with all below it, `limit` of them or fewer."""
        row = self._unit_of(offset)
        unit = self._unit(row)
        top = Tree(self._read(unit, row, offset), [])
        if not top.die.has_children:
            return top
        open_trees, pos = [top], top.die.end
        while open_trees:
            found = self._next(unit, row, pos)
            if found is None:
                open_trees.pop()
                pos += 1
                continue
            limit -= 1
            if limit < 0 or len(open_trees) > _DEPTH_LIMIT:
                raise self.error(offset, "function has too many DIEs")
            tree = Tree(found, [])
            open_trees[-1].children.append(tree)
            pos = found.end
            if found.has_children:
                open_trees.append(tree)
        return top

    def first_children(self, die: Die, tag: int) -> list[Die]:
        """Return the children of a DIE from the first on, as long as they have this tag and no children."""
        unit, found, pos = self._unit(die.unit), [], die.end
        while die.has_children:
            child = self._next(unit, die.unit, pos)
            if child is None or child.tag != tag or child.has_children:
                break
            found.append(child)
            pos = child.end
        return found

    def reference(self, die: Die, attribute: int) -> int:
        """Return the offset of the DIE that an attribute refers to; 0 if it has none, or one that is not loaded."""
        value = die.attributes.get(attribute)
        if value is None:
            return 0
        unit, number = self._unit(die.unit), value.number
        if value.kind == col.CLS_UNIT_REF:
            return unit.offset + number if number < unit.end - unit.offset else 0
        if value.kind == col.CLS_INFO_REF:
            return unit.columns[col.REF_BASE] + number if number < unit.columns[col.REF_LIMIT] else 0
        if value.kind == col.CLS_SUP and unit.columns[col.SUP_BASE]:
            return unit.columns[col.SUP_BASE] + number if number < len(self.debug.more) else 0
        return 0

    def address(self, die: Die, attribute: int) -> int | None:
        """Return an address; None if the DIE has no such attribute, or one of another class."""
        value = die.attributes.get(attribute)
        if value is None:
            return None
        if value.kind == col.CLS_ADDRESS_INDEX:
            return self.indexed_address(die.unit, value.number)
        return value.number if value.kind == col.CLS_ADDRESS else None

    def end(self, die: Die, low: int) -> int | None:
        """Return where the code of a DIE that begins at `low` ends: DW_AT_high_pc is an address, or a size."""
        value = die.attributes.get(DW_AT_high_pc)
        if value is None or value.kind == col.CLS_CONSTANT:
            return None if value is None else low + value.number
        return self.address(die, DW_AT_high_pc)

    def indexed_address(self, unit: int, index: int) -> int | None:
        """Return the address in a row of a unit's part of .debug_addr; None for a row outside of it."""
        columns = self._unit(unit).columns
        size_bytes = columns[col.ADDRESS_SIZE]
        start = columns[col.ADDR_BASE] + index * size_bytes
        word = self.debug.addr[start : start + size_bytes]
        return int.from_bytes(word, "little") if len(word) == size_bytes else None

    def block(self, die: Die, attribute: int) -> memoryview | None:
        """Return a block, such as an expression; None if the DIE has no such attribute, or one of another class."""
        value = die.attributes.get(attribute)
        if value is None or value.kind != col.CLS_BLOCK:
            return None
        unit = self._unit(die.unit)
        start = value.number - unit.shift
        return self._info(unit)[start : start + value.size_bytes]

    def text(self, die: Die, attribute: int) -> str:
        """Return a string; "" if the DIE has no such attribute."""
        value = die.attributes.get(attribute)
        if value is None:
            return ""
        columns, kind, number = self._unit(die.unit).columns, value.kind, value.number
        if kind == col.CLS_STR_INDEX:
            size_bytes = columns[col.OFFSET_SIZE]
            start = columns[col.STR_BASE] + number * size_bytes
            word = self.debug.str_offsets[start : start + size_bytes]
            if len(word) != size_bytes:
                return ""
            kind, number = col.CLS_STR, int.from_bytes(word, "little")
        bases = {
            col.CLS_STR: columns[col.STR_KIND],
            col.CLS_STRING: IN_INFO << STRING_KIND,
            col.CLS_LINE_STR: IN_LINE_STR << STRING_KIND if columns[col.STR_KIND] >> STRING_KIND == IN_STR else None,
            col.CLS_SUP: IN_SUP_STR << STRING_KIND,
        }
        base = bases.get(kind)
        if base is None or number >> STRING_KIND:
            return ""
        return self.debug.string(base + number).decode("utf-8", "surrogateescape")

    def columns(self, unit: int) -> list[int]:
        """Return the row of a unit, as `icf.dwarf.columns` has it."""
        return self._unit(unit).columns

    def error(self, offset: int, problem: str) -> FormatError:
        """Return the error to raise for what stands at an offset."""
        return FormatError(self.debug.path, ".debug_info", offset, problem)

    def _unit_of(self, offset: int) -> int:
        unit = bisect_right(self._starts, offset) - 1
        if unit < 0 or not self._unit(unit).first_die <= offset < self._unit(unit).end:
            raise self.error(offset, "no DIE starts here")
        return unit

    def _unit(self, row: int) -> _Unit:
        unit = self._units.get(row)
        if unit is None:
            columns: list[int] = self.debug.units[row].tolist()
            if columns[col.ERROR]:
                raise self.error(columns[col.OFFSET], "unit cannot be read")
            table: list[int] = self.debug.tables[columns[col.TABLE]].tolist()
            variant = variant_of(columns[col.VERSION], columns[col.ADDRESS_SIZE], columns[col.OFFSET_SIZE])
            unit = self._units[row] = _Unit(
                columns[col.OFFSET], columns[col.END], columns[col.SHIFT], columns[col.DIE],
                self._abbreviations(table[col.T_OFFSET], variant), columns, variant,
            )  # fmt: skip
        return unit

    def _info(self, unit: _Unit) -> memoryview:
        return self.debug.more if unit.shift else self._own_info

    def _abbreviations(self, offset: int, variant: int) -> dict[int, _Declaration]:
        known = self._tables.get((offset, variant))
        if known is not None:
            return known
        operation_of: list[int] = operations()[variant].tolist()
        reader = Reader(self.debug.abbrev, self.debug.path, ".debug_abbrev", offset)
        table: dict[int, _Declaration] = {}
        while code := reader.uleb():
            tag, has_children = reader.uleb(), reader.u8() != 0
            attributes: list[tuple[int, int, int]] = []
            while True:
                attribute, form = reader.uleb(), reader.uleb()
                if not attribute and not form:
                    break
                constant = reader.sleb() if form == _IMPLICIT_CONST else 0
                operation = _operation(operation_of, form)
                if operation == col.NO_FORM:
                    raise reader.error(f"form {form:#x} is unknown")
                attributes.append((attribute, operation, constant))
            table[code] = _Declaration(tag, has_children, attributes)
            if len(table) > _DECLARATION_LIMIT:
                raise reader.error("table of abbreviations is too large")
        self._tables[offset, variant] = table
        return table

    def _read(self, unit: _Unit, row: int, offset: int) -> Die:
        found = self._next(unit, row, offset)
        if found is None:
            raise self.error(offset, "no DIE starts here")
        return found

    def _next(self, unit: _Unit, row: int, offset: int) -> Die | None:
        """Return the DIE at an offset; None for the entry that ends a list of children."""
        reader = Reader(
            self._info(unit), self.debug.path, ".debug_info", offset - unit.shift, unit.end - unit.shift
        )  # fmt: skip
        code = reader.uleb()
        if not code:
            return None
        declaration = unit.abbreviations.get(code)
        if declaration is None:
            raise reader.error(f"abbreviation {code} is not in the table", offset - unit.shift)
        attributes = {
            attribute: self._value(reader, unit, operation, constant)
            for attribute, operation, constant in declaration.attributes
        }
        return Die(offset, declaration.tag, row, declaration.has_children, reader.pos + unit.shift, attributes)

    def _value(self, reader: Reader, unit: _Unit, operation: int, constant: int) -> Value:
        encoding, kind, argument = operation & 15, operation >> 9 & 31, operation >> 14
        if encoding in (col.ENC_FIXED, col.ENC_SKIP):
            if kind == col.CLS_BLOCK:  # DW_FORM_data16
                start = reader.pos + unit.shift
                reader.take(argument)
                return Value(kind, start, argument)
            return Value(kind, reader.uint(argument))
        if encoding == col.ENC_ULEB:
            return Value(kind, reader.uleb())
        if encoding == col.ENC_SLEB:
            return Value(kind, reader.sleb())
        if encoding == col.ENC_STRING:
            start = reader.pos + unit.shift
            reader.cstring()
            return Value(kind, start)
        if encoding in (col.ENC_BLOCK, col.ENC_ULEB_BLOCK):
            size_bytes = reader.uleb() if encoding == col.ENC_ULEB_BLOCK else reader.uint(argument)
            start = reader.pos + unit.shift
            reader.take(size_bytes)
            return Value(kind, start, size_bytes)
        if encoding == col.ENC_PRESENT:
            return Value(kind, 1)
        if encoding == col.ENC_IMPLICIT:
            return Value(kind, constant)
        form = reader.uleb()
        found = _operation(operations()[unit.variant].tolist(), form)
        if found == col.NO_FORM or found & 15 in (col.ENC_INDIRECT, col.ENC_IMPLICIT):
            raise reader.error(f"form {form:#x} is unknown")
        return self._value(reader, unit, found, 0)


def _operation(operation_of: list[int], form: int) -> int:
    """Return the operation that reads a form; NO_FORM for one that does not exist."""
    if form < 0x40:
        return operation_of[form]
    return operation_of[form - 0x1F00 + 0x40] if 0x1F00 <= form < 0x1F40 else col.NO_FORM
