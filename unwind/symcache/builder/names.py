"""The strings of a symcache: names of functions, each once, compressed in blocks as they come.

Numbers in records are LEB128, so the few names that are everywhere (`std::move`, `operator new`) should have the small
ones: of the names that are numbered together, the most used come first. A name is a *reference* until it has its
number: into the debug information, as kernels make them, to a symbol, or to a text. A large program has gigabytes of
names. So no name is kept: a hash of 64 bits finds its number, and its bytes go into a compressed block.
"""

from __future__ import annotations

import zlib
from array import array

import numpy as np

from icf.columns import I64, U32, U64
from icf.dwarf.clone_names import clone_names
from icf.dwarf.dies import Identity
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.string_kinds import STRING_KIND
from icf.strings import hash_table
from unwind.symcache.format.records import NAME_COUNT

_SYMBOL, _TEXT = (np.uint64(kind << STRING_KIND) for kind in (8, 9))  # kinds of references besides those of kernels
_OFFSET = (1 << STRING_KIND) - 1
_EMPTY = hash_table(memoryview(b"\0"), np.zeros(1, np.uint64))[0]
_TOGETHER = 1 << 14  # names that are compressed together
_LEVEL = 1  # of compression: 6 needs three times as long for a fifth less


class Names:
    """Numbers of names; 0 stands for none."""

    def __init__(self, image: Image | None, debug: DebugInfo | None) -> None:
        self._symbols = image.symbols if image is not None else None
        self._debug = debug
        self._texts, self._symbol_names = bytearray(b"\0"), bytearray(b"\0")  # each with its NUL
        self._known: list[tuple[U64, U32]] = []  # hashes, ascending, and the numbers; each half as long or less
        self._pending = [b""]
        self._blocks: list[bytes] = []  # a bytearray that grows is copied, and both copies take memory
        self._checksums = array("I", [0])

    @property
    def count(self) -> int:
        return len(self._checksums)

    def checksums(self) -> U32:
        """Return the CRC-32 of each name."""
        return np.array(self._checksums, np.uint32)

    def blocks(self) -> tuple[bytes, U64]:
        """Return all names as `names` has them, and where each block begins; none may be numbered afterwards."""
        if self._pending:
            self._pack(self._pending)
            self._pending = []
        blocks = b"".join(self._blocks), np.cumsum([0, *map(len, self._blocks)], dtype=np.uint64)
        self._blocks.clear()
        return blocks

    def forget_sources(self) -> None:
        """Free what names were read from; none may be numbered afterwards."""
        self._debug = None
        self._texts.clear()
        self._symbol_names.clear()
        self._known.clear()

    def of_text(self, text: str) -> int:
        """Return the reference of a text."""
        start = len(self._texts)
        self._texts += text.encode("utf-8", "surrogateescape") + b"\0"
        return int(_TEXT) | start

    def of_functions(self, identity: Identity) -> U64:
        """Return the references of the names of functions of the debug information: linkage names, or else others."""
        references = np.where(identity.linkage_name != 0, identity.linkage_name, identity.name)
        if self._debug is not None:
            plain = np.where(identity.linkage_name == 0, identity.name, np.uint64(0))
            for row, name in clone_names(self._debug, plain, identity.root).items():
                references[row] = self.of_text(name)
        return references

    def of_symbols(self, rows: I64) -> U64:
        """Return the references of the names of symbols, without versions (`fopen@@GLIBC_2.2.5`)."""
        assert self._symbols is not None
        symbols, self._symbols = self._symbols, None  # a table of strings is large, and they are asked for once
        offsets, back = np.unique(symbols.name_offset[rows], return_inverse=True)
        symbols.name_at(int(offsets[-1]) if len(offsets) else 0)  # a FormatError, where the name has no end
        found, references = self._symbol_names, []
        for name in symbols.strings.texts(offsets):
            references.append(int(_SYMBOL) | len(found))
            found += (name.partition(b"@")[0] if symbols.is_elf else name) + b"\0"
        return np.where(offsets != 0, np.array(references, np.uint64), np.uint64(0))[back.reshape(-1)]

    def number(self, references: U64, uses: I64 | None = None) -> U32:
        """Return the number of each name; of new ones the most used are first.

        Args:
            references: the names.
            uses: how often each is used; None: once.
        """
        distinct, back = np.unique(references, return_inverse=True)
        of_distinct = np.bincount(back.reshape(-1), uses, len(distinct))
        read, known = self._read(distinct)
        hashes, first, of_hash = np.unique(read, return_index=True, return_inverse=True)
        of_hash = of_hash.reshape(-1)
        numbers, is_new = self._look_up(hashes)
        is_new &= (hashes != 0) & (hashes != _EMPTY)
        new = np.flatnonzero(is_new)
        used = np.bincount(of_hash, of_distinct, len(hashes))[new]
        new = new[np.lexsort((first[new], -used))]
        numbers[new] = np.arange(self.count, self.count + len(new), dtype=np.uint32)
        own = len(known)
        for at in range(0, len(new), _TOGETHER):
            rows = first[new[at : at + _TOGETHER]].tolist()
            self._add([known[row] if row < own else self._name(int(distinct[row])) for row in rows])
        self._remember(hashes[is_new], numbers[is_new])
        return numbers[of_hash][back.reshape(-1)]

    def _name(self, reference: int) -> bytes:
        kind, start = reference & ~_OFFSET, reference & _OFFSET
        names = self._symbol_names if kind == _SYMBOL else self._texts
        return bytes(names[start : names.index(0, start)])

    def _read(self, references: U64) -> tuple[U64, list[bytes]]:
        """Return the hashes of ascending references, and the names of those into the debug information."""
        hashes, found = np.zeros(len(references), np.uint64), list[bytes]()
        own, texts = np.searchsorted(references, (_SYMBOL, _TEXT)).tolist()
        if self._debug is not None:
            hashes[:own], found = self._debug.hashed_strings(references[:own])
        for first, last, names in ((own, texts, self._symbol_names), (texts, len(references), self._texts)):
            with memoryview(names) as table:
                hashes[first:last] = hash_table(table, references[first:last] & np.uint64(_OFFSET))
        return hashes, found

    def _look_up(self, hashes: U64) -> tuple[U32, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        numbers, is_new = np.zeros(len(hashes), np.uint32), np.ones(len(hashes), np.bool_)
        for known, their in self._known:
            at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            here = known[at] == hashes
            numbers[here], is_new[here] = their[at[here]], False
        return numbers, is_new

    def _remember(self, hashes: U64, numbers: U32) -> None:
        if not len(hashes):
            return
        self._known.append((hashes, numbers))
        while len(self._known) > 1 and 2 * len(self._known[-1][0]) > len(self._known[-2][0]):
            self._known[-2:] = [_merged(*self._known[-2:])]

    def _add(self, names: list[bytes]) -> None:
        self._checksums.extend(map(zlib.crc32, names))
        self._pending += names
        whole = len(self._pending) // NAME_COUNT * NAME_COUNT
        for first in range(0, whole, NAME_COUNT):
            self._pack(self._pending[first : first + NAME_COUNT])
        del self._pending[:whole]

    def _pack(self, names: list[bytes]) -> None:
        self._blocks.append(zlib.compress(b"\0".join([*names, b""]), _LEVEL))


def _merged(first: tuple[U64, U32], second: tuple[U64, U32]) -> tuple[U64, U32]:
    """Return the hashes of both, ascending, and their numbers; a sort would take three times the memory."""
    at = np.searchsorted(first[0], second[0]) + np.arange(len(second[0]))
    is_first = np.ones(len(first[0]) + len(second[0]), np.bool_)
    is_first[at] = False
    hashes, numbers = np.empty(len(is_first), np.uint64), np.empty(len(is_first), np.uint32)
    for merged, one, other in ((hashes, first[0], second[0]), (numbers, first[1], second[1])):
        merged[is_first], merged[at] = one, other
    return hashes, numbers
