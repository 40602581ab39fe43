"""Type records of a PDB (streams 2 and 4): names of inlined functions, and the types of parameters.

    header   u32 version, u32 header bytes, u32 first number, u32 number after the last, u32 bytes of records
    record   u16 length (of what follows), u16 kind, contents; its number is its place, from the first number on

Numbers below 0x1000 are simple types: kind in the low byte, kind of pointer to it above.

Sources: LLVM, "The PDB TPI and IPI Streams", `TypeRecord.h`; microsoft-pdb, `cvinfo.h`.
"""

from __future__ import annotations

from functools import cached_property
from struct import Struct

from icf.errors import FormatError
from icf.reader import Reader

TYPES, IDS = 2, 4  # streams
LF_POINTER, LF_MODIFIER, LF_PROCEDURE, LF_MFUNCTION, LF_ARGLIST = 0x1002, 0x1001, 0x1008, 0x1009, 0x1201
LF_CLASS, LF_STRUCTURE, LF_UNION, LF_ENUM, LF_INTERFACE = 0x1504, 0x1505, 0x1506, 0x1507, 0x1519
LF_FUNC_ID, LF_MFUNC_ID, LF_STRING_ID = 0x1601, 0x1602, 0x1605
_HEADER, _RECORD, _FUNCTION_ID = Struct("<5I"), Struct("<2H"), Struct("<2I")
_NUMERIC_BYTES = {0x8000: 1, 0x8001: 2, 0x8002: 2, 0x8003: 4, 0x8004: 4, 0x8009: 8, 0x800A: 8}
_CLASS_SKIP = {LF_CLASS: 16, LF_STRUCTURE: 16, LF_INTERFACE: 16, LF_UNION: 8, LF_ENUM: 12}
_SIMPLE = {
    0x03: "void", 0x10: "signed char", 0x20: "unsigned char", 0x70: "char", 0x71: "wchar_t", 0x7A: "char16_t",
    0x7B: "char32_t", 0x7C: "char8_t", 0x11: "short", 0x21: "unsigned short", 0x72: "short", 0x73: "unsigned short",
    0x12: "long", 0x22: "unsigned long", 0x74: "int", 0x75: "unsigned int", 0x13: "__int64", 0x23: "unsigned __int64",
    0x76: "__int64", 0x77: "unsigned __int64", 0x30: "bool", 0x40: "float", 0x41: "double", 0x42: "long double",
}  # fmt: skip
_VARIADIC = 0  # as the last parameter
_NULLPTR = 0x103
_DEPTH, _FUNCTION_DEPTH, _PARAMETER_LIMIT = 16, 2, 32  # types of parameters nest; deeper ones are not known


class Records:
    """The records of one of the streams."""

    def __init__(self, stream: memoryview, path: str, place: str) -> None:
        self._stream, self._path, self._place = stream, path, place
        self._first = self._limit = 0
        self._begin = self._end = 0
        if len(stream) >= _HEADER.size:
            _, self._begin, self._first, self._limit, size_bytes = _HEADER.unpack(stream[: _HEADER.size])
            self._end = self._begin + size_bytes
            if self._end > len(stream):
                problem = f"{size_bytes} bytes of records end outside of the stream of {len(stream)}"
                raise FormatError(path, place, 16, problem)

    @cached_property
    def _offsets(self) -> list[int]:
        at, end, stream, found = self._begin, self._end, self._stream, list[int]()
        while end - at >= 4:
            found.append(at)
            at += 2 + (stream[at] | stream[at + 1] << 8)
        return found

    def find(self, number: int) -> tuple[int, Reader] | None:
        """Return the kind of a record, and a reader of its contents; None if there is none of that number."""
        at = number - self._first
        if not 0 <= at < len(self._offsets):
            return None
        start = self._offsets[at]
        size_bytes, kind = _RECORD.unpack_from(self._stream, start)
        return kind, Reader(self._stream, self._path, self._place, start + 4, min(start + 2 + size_bytes, self._end))


class Types:
    """Names of functions and types."""

    def __init__(self, types: Records, ids: Records) -> None:
        self._types, self._ids = types, ids
        self._known: dict[int, list[str] | None] = {}  # parameters of functions

    def function_name(self, number: int) -> str:
        """Return the name of an inlined function with its scopes; "" if it has none."""
        found = self._ids.find(number)
        if found is None or found[0] not in (LF_FUNC_ID, LF_MFUNC_ID):
            return ""
        kind, reader = found
        scope, _ = _FUNCTION_ID.unpack(reader.take(_FUNCTION_ID.size))
        name = _text(reader)
        around = self.type_name(scope) if kind == LF_MFUNC_ID else self._string(scope)
        return f"{around}::{name}" if around else name

    def type_name(self, number: int) -> str:
        """Return the name of a class or enumeration; "" for any other type."""
        found = self._types.find(number)
        if found is None or found[0] not in _CLASS_SKIP:
            return ""
        kind, reader = found
        reader.take(_CLASS_SKIP[kind])
        if kind != LF_ENUM:
            leaf = reader.u16()
            reader.take(_NUMERIC_BYTES.get(leaf, 0))
        return _text(reader)

    def parameters(self, number: int) -> list[str] | None:
        """Return the types of the parameters of a function as C++ has them; None if any is not known."""
        if number not in self._known:
            self._known[number] = self._parameters(number, _DEPTH)
        return self._known[number]

    def _parameters(self, number: int, depth: int) -> list[str] | None:
        found = self._types.find(number)
        if found is None or found[0] not in (LF_PROCEDURE, LF_MFUNCTION):
            return None
        kind, reader = found
        reader.take(8 if kind == LF_PROCEDURE else 16)  # up to the list
        found = self._types.find(reader.u32())
        if found is None or found[0] != LF_ARGLIST:
            return None
        reader = found[1]
        texts, count = [], reader.u32()
        if count > _PARAMETER_LIMIT:
            return None
        for _ in range(count):
            text = self._text(reader.u32(), depth)
            if text is None:
                return None
            texts.append(text)
        return texts

    def _string(self, number: int) -> str:
        found = self._ids.find(number) if number else None
        if found is None or found[0] != LF_STRING_ID:
            return ""
        found[1].u32()
        return _text(found[1])

    def _text(self, number: int, depth: int) -> str | None:
        if number == _VARIADIC:
            return "..."
        if number == _NULLPTR:
            return "std::nullptr_t"
        if number < 0x1000:
            name = _SIMPLE.get(number & 0xFF)
            return name if name is None or not number & 0xF00 else f"{name} *"
        found = self._types.find(number) if depth else None
        if found is None:
            return None
        kind, reader = found
        if kind in _CLASS_SKIP:
            return self.type_name(number)
        if kind == LF_MODIFIER:
            inner, flags = self._text(reader.u32(), depth - 1), reader.u16()
            return (
                None if inner is None or flags & ~3 else f"{inner}{' const' * (flags & 1)}{' volatile' * (flags >> 1)}"
            )
        if kind == LF_POINTER:
            target, attributes = reader.u32(), reader.u32()
            mode = {0: "*", 1: "&", 4: "&&"}.get(attributes >> 5 & 7)
            return None if mode is None else self._pointer(target, mode, depth - 1)
        return None

    def _pointer(self, target: int, mode: str, depth: int) -> str | None:
        found = self._types.find(target) if target >= 0x1000 else None
        if found is None or found[0] != LF_PROCEDURE:
            inner = self._text(target, depth)
            return None if inner is None else f"{inner} {mode}"
        result, convention = found[1].u32(), found[1].u8()
        returned, parameters = self._text(result, depth), self._parameters(target, min(depth, _FUNCTION_DEPTH))
        if returned is None or parameters is None or convention != 0:
            return None
        return f"{returned} (__cdecl {mode})({', '.join(parameters) or 'void'})"


def _text(reader: Reader) -> str:
    return reader.cstring().decode("utf-8", "surrogateescape")
