"""Location lists: where a variable is, for each part of a function (DWARF 5, 2.6.2 and 7.7.3).

    .debug_loclists  DWARF 5: entries of a kind, its operands, and an expression; in .dwo files, too
    .debug_loc       DWARF 2 to 4: low, high, expression; low of all ones: the second is a new base; two zeros: the end
    .debug_loc.dwo   GNU's split DWARF 4: kinds again, with numbers of their own

A list is read up to the entry of the asked address. An entry that cannot be read ends it: then nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from icf.dwarf import columns as col
from icf.dwarf.constants import DW_AT_loclists_base
from icf.dwarf.trees import Die, Trees, Value
from icf.errors import FormatError
from icf.reader import Reader

_MASK = (1 << 64) - 1
_ENTRY_LIMIT = 1 << 16
# DWARF 5, 7.7.3
_END, _BASE_ADDRESSX, _STARTX_ENDX, _STARTX_LENGTH, _OFFSET_PAIR = range(5)
_DEFAULT, _BASE_ADDRESS, _START_END, _START_LENGTH, _GNU_VIEW_PAIR = range(5, 10)


class Entry(NamedTuple):
    """An expression and the addresses for which it holds, as linked."""

    low: int
    high: int
    expression: memoryview
    is_default: bool = False  # where no other entry holds


def expression_at(trees: Trees, die: Die, attribute: int, vaddr: int) -> memoryview | None:
    """Return the expression that an attribute has at an address; None if it has none there."""
    if (block := trees.block(die, attribute)) is not None:
        return block
    default = None
    for entry in entries(trees, die, attribute):
        if entry.is_default:
            default = entry.expression
        elif entry.low <= vaddr < entry.high:
            return entry.expression
    return default


def is_list(trees: Trees, die: Die, attribute: int) -> bool:
    """Return whether an attribute is a location list."""
    value = die.attributes.get(attribute)
    return value is not None and _list_at(trees, die.unit, value) is not None


def entries(trees: Trees, die: Die, attribute: int) -> Iterator[Entry]:
    """Yield the entries of a location list, up to one that cannot be read."""
    value = die.attributes.get(attribute)
    start = None if value is None else _list_at(trees, die.unit, value)
    if start is None:
        return
    try:
        if trees.columns(die.unit)[col.VERSION] >= 5:
            yield from _with_kinds(trees, die.unit, start)
        elif _is_split(trees, die.unit):
            yield from _of_split_4(trees, die.unit, start)
        else:
            yield from _pairs(trees, die.unit, start)
    except FormatError:
        return


def _is_split(trees: Trees, unit: int) -> bool:
    columns = trees.columns(unit)
    return bool(columns[col.SHIFT]) and columns[col.DWO_ID] in trees.debug.split_lists


def _list_at(trees: Trees, unit: int, value: Value) -> int | None:
    """Return where a list begins in its section; None if the value is of another class."""
    columns = trees.columns(unit)
    is_offset = value.kind == col.CLS_OFFSET or (value.kind == col.CLS_CONSTANT and columns[col.VERSION] < 4)
    if value.number < 0:
        return None
    start = trees.debug.split_lists[columns[col.DWO_ID]] if _is_split(trees, unit) else 0
    if is_offset:
        return start + value.number
    if value.kind != col.CLS_LIST_INDEX:
        return None
    offset_bytes = columns[col.OFFSET_SIZE]
    header_bytes = 20 if offset_bytes == 8 else 12
    base = trees.unit_die(unit).attributes.get(DW_AT_loclists_base)
    start = base.number if base is not None and not _is_split(trees, unit) else start + header_bytes
    at = start + value.number * offset_bytes
    word = trees.debug.loclists[at : at + offset_bytes]
    return start + int.from_bytes(word, "little") if len(word) == offset_bytes else None


def _with_kinds(trees: Trees, unit: int, start: int) -> Iterator[Entry]:
    reader = Reader(trees.debug.loclists, trees.debug.path, ".debug_loclists", start)
    columns = trees.columns(unit)
    base, address_bytes = columns[col.LOW_PC], columns[col.ADDRESS_SIZE]

    def indexed() -> int:
        address = trees.indexed_address(unit, reader.uleb())
        if address is None:
            raise reader.error("address index is outside of .debug_addr")
        return address

    for _ in range(_ENTRY_LIMIT):
        kind = reader.u8()
        low = high = 0
        if kind == _END:
            return
        if kind == _BASE_ADDRESSX:
            base = indexed()
        elif kind == _BASE_ADDRESS:
            base = reader.uint(address_bytes)
        elif kind == _GNU_VIEW_PAIR:
            reader.uleb()
            reader.uleb()
        elif kind == _STARTX_ENDX:
            low, high = indexed(), indexed()
        elif kind == _STARTX_LENGTH:
            low = indexed()
            high = low + reader.uleb()
        elif kind == _OFFSET_PAIR:
            low, high = base + reader.uleb(), base + reader.uleb()
        elif kind == _START_END:
            low, high = reader.uint(address_bytes), reader.uint(address_bytes)
        elif kind == _START_LENGTH:
            low = reader.uint(address_bytes)
            high = low + reader.uleb()
        elif kind != _DEFAULT:
            raise reader.error(f"kind {kind} of entry is unknown")
        if kind not in (_BASE_ADDRESSX, _BASE_ADDRESS, _GNU_VIEW_PAIR):
            yield Entry(low & _MASK, high & _MASK, reader.take(reader.uleb()), kind == _DEFAULT)


def _of_split_4(trees: Trees, unit: int, start: int) -> Iterator[Entry]:
    reader = Reader(trees.debug.loc, trees.debug.path, ".debug_loc.dwo", start)
    base = trees.columns(unit)[col.LOW_PC]
    for _ in range(_ENTRY_LIMIT):
        kind = reader.u8()
        if kind == 0:
            return
        if kind > 4:
            raise reader.error(f"kind {kind} of entry is unknown")
        first = None if kind == 4 else trees.indexed_address(unit, reader.uleb())
        if kind == 1:  # a base
            base = first or 0
            continue
        if kind == 2:  # start, end
            last = trees.indexed_address(unit, reader.uleb())
        elif kind == 3:  # start, length
            length = reader.u32()
            last = None if first is None else first + length
        else:  # two offsets
            first, last = base + reader.u32(), base + reader.u32()
        expression = reader.take(reader.u16())
        if first is not None and last is not None:
            yield Entry(first & _MASK, last & _MASK, expression)


def _pairs(trees: Trees, unit: int, start: int) -> Iterator[Entry]:
    reader = Reader(trees.debug.loc, trees.debug.path, ".debug_loc", start)
    columns = trees.columns(unit)
    base, address_bytes = columns[col.LOW_PC], columns[col.ADDRESS_SIZE]
    for _ in range(_ENTRY_LIMIT):
        low, high = reader.uint(address_bytes), reader.uint(address_bytes)
        if low == (1 << 8 * address_bytes) - 1:
            base = high
        elif low == high == 0:
            return
        else:
            yield Entry((base + low) & _MASK, (base + high) & _MASK, reader.take(reader.u16()))
