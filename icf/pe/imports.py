"""Imports and exports of a PE image: the slots that the loader fills, and the functions that others can call by name.

    import directory     20 bytes a library: RVA of its names, ..., RVA of its name, RVA of its slots; zeros end it
    delayed imports      32 bytes a library: ..., RVA of its name, module handle, RVA of slots, RVA of names, ...
    names                u64 each, 0 ends them: the high bit and an ordinal, or the RVA of u16 hint and a name
    export directory     ..., counts of functions and names, RVAs of functions, of names and of the ordinals of names

An import without a name is shown as `library#ordinal`.

Source: Microsoft, "PE Format", The .idata Section, Delay-Load Import Tables, The .edata Section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from icf.pe.headers import DELAYED_IMPORTS, EXPORTS, IMPORTS
from icf.reader import Reader

if TYPE_CHECKING:
    from icf.pe.headers import Directory, PeHeaders

_IMPORT_BYTES, _DELAYED_BYTES, _SLOT_BYTES = 20, 32, 8
_BY_ORDINAL = 1 << 63
_NAME_LIMIT_BYTES = 4096
_LIMIT = 1 << 20  # functions; more are an attack
Read = Callable[[int, int], memoryview]  # the bytes from an RVA on, as many as there are


class PeExport(NamedTuple):
    """A function that other images can call."""

    name: str  # "" where they can by number alone
    rva: int


def find_imports(headers: PeHeaders, read: Read, path: str) -> dict[int, str]:
    """Return the imported function of each slot, by the RVA of the slot; raise FormatError."""
    slots: dict[int, str] = {}
    for library, names, first in _libraries(headers, read, path):
        for idx, name in enumerate(_names(library, names, read, path, _LIMIT - len(slots))):
            slots[first + _SLOT_BYTES * idx] = name
    return slots


def _libraries(headers: PeHeaders, read: Read, path: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each library, the RVA of the names that are imported from it, and that of its slots."""
    directory = headers.directory(IMPORTS)
    for reader in _entries(directory, _IMPORT_BYTES, read, path, "imports"):
        names, _, _, library, slots = (reader.u32() for _ in range(5))
        if not library:
            break
        yield _text(library, read, path, "imports"), names or slots, slots
    directory = headers.directory(DELAYED_IMPORTS)
    for reader in _entries(directory, _DELAYED_BYTES, read, path, "delayed imports"):
        _, library, _, slots, names = (reader.u32() for _ in range(5))
        if not library:
            break
        yield _text(library, read, path, "delayed imports"), names, slots


def _entries(directory: Directory, size_bytes: int, read: Read, path: str, place: str) -> Iterator[Reader]:
    if not directory.rva:
        return
    content = read(directory.rva, directory.size_bytes)
    if len(content) < directory.size_bytes:
        problem = f"{directory.size_bytes} bytes at RVA {directory.rva:#x} are not in a section"
        raise Reader(content, path, place).error(problem)
    for start in range(0, len(content) - size_bytes + 1, size_bytes):
        yield Reader(content, path, place, start, start + size_bytes)


def _names(library: str, rva: int, read: Read, path: str, limit: int) -> Iterator[str]:
    for idx in range(limit + 1):
        word = read(rva + _SLOT_BYTES * idx, _SLOT_BYTES)
        if idx == limit or len(word) < _SLOT_BYTES:
            raise Reader(word, path, "imports").error(f"names of {library} at RVA {rva:#x} have no end")
        value = int.from_bytes(word, "little")
        if not value:
            return
        yield f"{library}#{value & 0xFFFF}" if value & _BY_ORDINAL else _text(value + 2, read, path, "imports")


def find_exports(headers: PeHeaders, read: Read, path: str) -> list[PeExport]:
    """Return the exports that are in this image, without a name those by number alone; raise FormatError."""
    directory = headers.directory(EXPORTS)
    if not directory.rva:
        return []
    reader = Reader(read(directory.rva, min(directory.size_bytes, 40)), path, "exports", 20)
    function_count, name_count, functions, names, ordinals = (reader.u32() for _ in range(5))
    if max(function_count, name_count) > _LIMIT:
        raise reader.error(f"{max(function_count, name_count)} functions, must be {_LIMIT} or fewer", 20)
    rvas = Reader(read(functions, 4 * function_count), path, "exports")
    places = [rvas.u32() for _ in range(function_count)]
    named = Reader(read(names, 4 * name_count), path, "exports")
    numbers = Reader(read(ordinals, 2 * name_count), path, "exports")
    pairs, unnamed = [], set(range(len(places)))
    for _ in range(name_count):
        name, number = named.u32(), numbers.u16()
        if number >= len(places):
            raise numbers.error(f"ordinal {number} is beyond the {len(places)} functions", numbers.pos - 2)
        unnamed.discard(number)
        pairs.append((name, number))
    found = [
        PeExport("" if number in unnamed else _text(name, read, path, "exports"), places[number])
        for name, number in [*pairs, *((0, number) for number in sorted(unnamed))]
    ]
    in_other_library = range(directory.rva, directory.rva + directory.size_bytes)
    return [each for each in found if each.rva and each.rva not in in_other_library]


def _text(rva: int, read: Read, path: str, place: str) -> str:
    return Reader(read(rva, _NAME_LIMIT_BYTES), path, place).cstring().decode("utf-8", "surrogateescape")
