"""Types of variables, as far as their values are numbers: a name as in a declaration, a size, and how to read it.

const Shape *    pointer, 8 bytes        int    signed, 4 bytes        Shape    OTHER: no number
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from icf.dwarf import columns as col
from icf.dwarf.constants import (
    DW_AT_byte_size,
    DW_AT_encoding,
    DW_AT_name,
    DW_AT_type,
    DW_TAG_atomic_type,
    DW_TAG_base_type,
    DW_TAG_const_type,
    DW_TAG_enumeration_type,
    DW_TAG_pointer_type,
    DW_TAG_reference_type,
    DW_TAG_restrict_type,
    DW_TAG_rvalue_reference_type,
    DW_TAG_subroutine_type,
    DW_TAG_typedef,
    DW_TAG_volatile_type,
)
from icf.dwarf.trees import Die, Trees
from icf.errors import FormatError

_POINTERS = {DW_TAG_pointer_type: "*", DW_TAG_reference_type: "&", DW_TAG_rvalue_reference_type: "&&"}
_QUALIFIERS = {
    DW_TAG_const_type: "const",
    DW_TAG_volatile_type: "volatile",
    DW_TAG_restrict_type: "restrict",
    DW_TAG_atomic_type: "_Atomic",
}
_SIGNED, _UNSIGNED, _FLOAT = (0x05, 0x06), (0x01, 0x02, 0x07, 0x08, 0x10), 0x04  # DW_ATE_*
_CHAIN_LIMIT = 32
_SIZE_LIMIT = 1 << 32


class Kind(Enum):
    """How the bytes of a value are read."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FLOAT = "float"
    POINTER = "pointer"
    OTHER = "other"  # a class, an array: no number


class Type(NamedTuple):
    """A type; `size_bytes` is 0 where it is not known."""

    name: str
    size_bytes: int
    kind: Kind


_VOID, _UNKNOWN = Type("void", 0, Kind.OTHER), Type("?", 0, Kind.OTHER)


class Types:
    """The types of one image, by the offsets of their DIEs."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self._known: dict[int, Type] = {}

    def at(self, offset: int) -> Type:
        """Return the type of a DIE; offset 0 stands for `void`."""
        if not offset:
            return _VOID
        found = self._known.get(offset)
        if found is None:
            try:
                found = self._read(offset)
            except FormatError:
                found = _UNKNOWN
            self._known[offset] = found
        return found

    def _read(self, offset: int) -> Type:
        marks: list[str] = []  # what stands after the name, the last one first
        kind, size_bytes = None, 0
        for _ in range(_CHAIN_LIMIT):
            die = self._trees.die(offset) if offset else None
            tag = 0 if die is None else die.tag
            if tag in _POINTERS:
                marks.append(_POINTERS[tag])
                if kind is None and die is not None:
                    kind = Kind.POINTER
                    size_bytes = self._size(die) or self._trees.columns(die.unit)[col.ADDRESS_SIZE]
            elif tag in _QUALIFIERS:
                marks.append(_QUALIFIERS[tag])
            else:
                break
            offset = 0 if die is None else self._trees.reference(die, DW_AT_type)
        else:
            return _UNKNOWN
        unnamed = "()" if tag == DW_TAG_subroutine_type else "?"
        name = "void" if die is None else self._trees.text(die, DW_AT_name) or unnamed
        if kind is None and die is not None:
            size_bytes, kind = self._number(die)
        return Type(_declared(name, marks[::-1]), size_bytes, kind or Kind.OTHER)

    def _number(self, die: Die) -> tuple[int, Kind]:
        """Return size and kind of another type than a pointer."""
        if die.tag == DW_TAG_typedef:
            aliased = self._trees.reference(die, DW_AT_type)
            for _ in range(_CHAIN_LIMIT):
                if not aliased:
                    return 0, Kind.OTHER
                target = self._trees.die(aliased)
                if target.tag in _POINTERS:
                    return self._size(target) or self._trees.columns(target.unit)[col.ADDRESS_SIZE], Kind.POINTER
                if target.tag != DW_TAG_typedef and target.tag not in _QUALIFIERS:
                    return self._number(target)
                aliased = self._trees.reference(target, DW_AT_type)
            return 0, Kind.OTHER
        encoding = die.attributes.get(DW_AT_encoding)
        if die.tag == DW_TAG_enumeration_type:
            underlying = self._trees.reference(die, DW_AT_type)
            kind = self._number(self._trees.die(underlying))[1] if underlying else Kind.UNSIGNED
            return self._size(die), kind if kind is Kind.SIGNED else Kind.UNSIGNED
        if die.tag != DW_TAG_base_type or encoding is None:
            return self._size(die), Kind.OTHER
        if encoding.number in _SIGNED:
            return self._size(die), Kind.SIGNED
        if encoding.number in _UNSIGNED:
            return self._size(die), Kind.UNSIGNED
        return self._size(die), Kind.FLOAT if encoding.number == _FLOAT else Kind.OTHER

    def _size(self, die: Die) -> int:
        value = die.attributes.get(DW_AT_byte_size)
        if value is None or value.kind != col.CLS_CONSTANT or not 0 <= value.number < _SIZE_LIMIT:
            return 0
        return value.number


def _declared(name: str, marks: list[str]) -> str:
    """Return a name with its marks; a qualifier right of a name stands before it: `const char * const`."""
    while marks and marks[0].isalpha():
        name = f"{marks.pop(0)} {name}"
    return " ".join([name, "".join(f" {mark}" if mark.isalpha() else mark for mark in marks)]).strip()
