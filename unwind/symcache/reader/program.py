"""The sections of a symcache that the resolver needs besides its functions, and the program made of them.

    icf, dcall, vcall   the tables, as in the image; names are all in the pool of `icf`
    code                the bytes of the sections that hold code, one after the other
    codemap             3 x u64 for each: address, size, offset in `code`; ascending
    words               2 x u64 for each constant that is an address in a group of vtables of `icf`: place, address
    bound               `unwind.program.bound_slots.ROW`s: slots of vtables that the loader fills by name; none without
    boundto             JSON, compressed with zlib: the names that they mean
    links               JSON: where code is, imports by GOT slot and by PLT stub, names of vtables
    exports             JSON: name, address, version and marks of what the image defines for others, read when asked for

The code itself is kept, not the facts in it: the resolver decodes a call or a function when a stack leads to
it, and the builder cannot know which ones. It is a few percent of a program with debug information.

`unwind.symcache.builder.program` writes them.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from icf.columns import U64
from icf.elf.types import Machine
from icf.errors import FormatError
from icf.model import ClassFlag, DieOffset, FoldClass, Member, Vaddr
from unwind.program.bound_slots import ROW, BoundSlots, Rows
from unwind.program.exports import Export, Exports, ListedExports
from unwind.program.from_tables import make_program, parse_tables
from unwind.program.program import Linkage, Program
from unwind.symcache.format.container import Container

if TYPE_CHECKING:
    from unwind.symcache.reader.symcache import SymCache

_NAMES_LIMIT = 1 << 28
_EXPORT = str, int, str, bool, bool
_LINKS = {
    "folds_imports": bool,
    "text": list,
    "span": list,
    "imports": dict,
    "stubs": dict,
    "vtables": dict,
}


def has_program(cache: SymCache) -> bool:
    """Return whether there are these sections."""
    return "links" in cache.container


def load_cached(cache: SymCache, exports: Exports | None = None, linkage: Linkage | None = None) -> Program:
    """Return the program of a symcache; no other file is opened. Raise FormatError if its sections are damaged."""
    container = cache.container
    facts, tables = KeptFacts(cache), None
    if "icf" in container:
        icf, dcall, vcall = (container.section(name) for name in ("icf", "dcall", "vcall"))
        tables = parse_tables(icf, dcall, vcall, container.path)
    functions = _Functions(cache, facts)
    jumps_known = bool(facts.links.get("jumps_known", True))
    exports = exports or facts.exports
    folds_imports = bool(facts.links["folds_imports"])
    bound_slots, has_classes = BoundSlots(facts.bound_slots), bool(facts.links.get("classes"))
    return make_program(
        tables,
        facts,
        functions,
        exports,
        folds_imports,
        linkage,
        jumps_known=jumps_known,
        bound_slots=bound_slots,
        has_classes=has_classes,
    )


class KeptFacts:
    """The facts of the code that a symcache keeps (`unwind.program.facts.CodeFacts`), and the exports of the image."""

    def __init__(self, cache: SymCache) -> None:
        self._cache = cache
        self._container: Container = cache.container
        self.machine = Machine(self._container.head.machine)
        self.links = self._read_links()
        code_map = self._u64("codemap", 3)
        self._starts, self._sizes, self._offsets = (code_map[:, column].tolist() for column in range(3))

    def read(self, vaddr: int, size_bytes: int) -> memoryview:
        """Return the code from `vaddr` on, as many bytes as there are."""
        row = bisect_right(self._starts, vaddr) - 1
        left = self._starts[row] + self._sizes[row] - vaddr if row >= 0 else 0
        if left <= 0 or size_bytes <= 0:
            return memoryview(b"")
        return self._container.piece("code", self._offsets[row] + vaddr - self._starts[row], min(size_bytes, left))

    def may_start_function(self, vaddr: int) -> bool:
        """Return whether a function may start there."""
        if not len(self.read(vaddr, 1)):
            return False
        found = self._cache.find(vaddr)
        return (found is not None and found.start == vaddr) or vaddr in self.stubs

    @property
    def text(self) -> tuple[int, int]:
        low, high = self.links["text"]
        return low, high

    @property
    def span(self) -> tuple[int, int]:
        """The lowest and the highest address of what is loaded of the image."""
        low, high = self.links["span"]
        return low, high

    @cached_property
    def imports(self) -> Mapping[int, str]:
        return self._by_address("imports")

    @cached_property
    def stubs(self) -> Mapping[int, str]:
        return self._by_address("stubs")

    @cached_property
    def vtables(self) -> Mapping[int, str]:
        """Names of vtables by address point."""
        return self._by_address("vtables")

    @cached_property
    def exports(self) -> ListedExports:
        """What the image defines for others."""
        return ListedExports(self._read_exports())

    def code(self) -> list[tuple[int, memoryview]]:
        """Return address and bytes of each section with code."""
        return [
            (start, self.read(start, size_bytes)) for start, size_bytes in zip(self._starts, self._sizes, strict=True)
        ]

    def constants(self) -> tuple[U64, U64]:
        words = self._u64("words", 2)
        return words[:, 0].copy(), words[:, 1].copy()

    def bound_slots(self) -> tuple[Rows, list[str]]:
        """Return the slots of vtables that the loader fills by name, and the names."""
        if "bound" not in self._container:
            return np.zeros(0, ROW), []
        content, packed = self._container.section("bound"), zlib.decompressobj()
        try:
            names = json.loads(packed.decompress(self._container.section("boundto"), _NAMES_LIMIT))
        except (ValueError, RecursionError, zlib.error) as error:
            raise FormatError(self._container.path, "boundto", 0, f"is not compressed JSON: {error}") from error
        if not isinstance(names, list) or set(map(type, names)) - {str}:
            raise self._error("boundto")
        if len(content) % ROW.itemsize:
            raise FormatError(
                self._container.path, "bound", len(content), f"section is not of {ROW.itemsize} bytes a row"
            )
        rows = np.frombuffer(content, ROW)
        if len(rows) and max(rows["name"].max(), rows["group"].max()) >= len(names):
            raise self._error("bound")
        return rows, names

    def _u64(self, name: str, columns: int) -> U64:
        content = self._container.section(name)
        if len(content) % (8 * columns):
            raise FormatError(self._container.path, name, len(content), f"section is not of {columns} words a row")
        return np.frombuffer(content, np.uint64).reshape(-1, columns)

    def _by_address(self, name: str) -> dict[int, str]:
        return {int(address): symbol for address, symbol in self.links[name].items()}

    def _read_links(self) -> dict[str, Any]:
        links = self._json("links")
        if not isinstance(links, dict) or not _are_links(links):
            raise self._error("links")
        return links

    def _read_exports(self) -> Iterator[Export]:
        exports = self._json("exports")
        if not isinstance(exports, list) or not _are_exports(exports):
            raise self._error("exports")
        yield from map(Export._make, exports)

    def _json(self, name: str) -> object:
        try:
            return json.loads(bytes(self._container.section(name)))
        except (ValueError, RecursionError) as error:
            raise FormatError(self._container.path, name, 0, f"is not JSON: {error}") from error

    def _error(self, name: str) -> FormatError:
        return FormatError(self._container.path, name, 0, "is not what the resolver needs")


def _are_links(links: dict[str, Any]) -> bool:
    """Return whether everything exists with its type."""
    if any(type(links.get(key)) is not kind for key, kind in _LINKS.items()):
        return False
    for key in ("imports", "stubs", "vtables"):
        if not all(map(str.isdecimal, links[key])) or set(map(type, links[key].values())) - {str}:
            return False
    return all(list(map(type, links[key])) == [int, int] for key in ("text", "span"))


def _are_exports(exports: list[Any]) -> bool:
    """Return whether each entry has the fields of an export; a library has 100,000, so no loop looks at them."""
    if set(map(type, exports)) - {list} or set(map(len, exports)) - {len(_EXPORT)}:
        return False
    return all(
        set(map(type, column)) == {kind} for kind, column in zip(_EXPORT, zip(*exports, strict=True), strict=False)
    )


class _Functions:
    """The functions that are in no fold class, as the symcache has them."""

    def __init__(self, cache: SymCache, facts: KeptFacts) -> None:
        self._cache = cache
        self._facts = facts
        self._folds: dict[int, FoldClass] = {}  # by entry, those that were found

    def find(self, vaddr: int) -> FoldClass | None:
        entry = self._cache.entry_at(vaddr)
        if entry < 0:
            return None
        fold = self._folds.get(entry)
        if fold is None:
            found = self._cache.located(entry)
            if found is None:
                return None
            flags = ClassFlag.MEMBERS_COMPLETE if found.is_complete else ClassFlag.NONE
            members = tuple(Member(each.name, DieOffset(0), each.flags, each.aliases) for each in found.members)
            fold = self._folds[entry] = FoldClass(Vaddr(found.start), found.size_bytes, members, flags)
        return fold

    def named(self, name: str) -> Sequence[int]:
        return self._cache.addresses(name)

    def vtable_name(self, vptr: int) -> str:
        return self._facts.vtables.get(vptr, "")
