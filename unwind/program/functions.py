"""Functions by address, from the symbol table: all functions in no fold class.

Symbols that start at one address make one function here. Their meaning depends on the image. If the
link pass has run, its fold classes have the folded functions, so the other symbols are aliases and the
best symbol names the function: global before weak before local, then by name. If it has not, several
symbols may be folded functions or aliases. Names alone show the variants that a C++ compiler makes of one
constructor or destructor (C1 and C2, D1 and D2), which demangle to one text and
differ in that digit, and versions of one name (`memcpy@@GLIBC_2.14`). All others are members, and there may be more of
them, also where one symbol is left: gold drops those of folded local functions, mold those of all folded ones, `strip`
and -x local ones. lld drops none.

GNU ld folds nothing. There the symbols of C at one address are aliases, which get one name: a global one before a local
one, the default version before others (`memcpy@@GLIBC_2.14` is memcpy), one without underscores before one with them,
and else the last in the image's own table of symbols, as in llvm-symbolizer. Different functions of C++ or Rust at
one address are members there as well: compilers merge them. No name here has a version; the unchanged symbols are
aliases.

Assembly often leaves out sizes: such a symbol reaches to the next one, to a function without a symbol
(`unwind.program.next_functions`) or the end of its section. In PE images, where
all functions lack them that need no unwinding, it reaches as far as its debug information says, or to the next symbol
of any kind. Where ranges nest, the innermost counts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from icf.aliases import is_clone_of_shared, same_function
from icf.columns import U64
from icf.demangle import demangle
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL, STT_OBJECT
from icf.linkers import KeptSymbols
from icf.model import ClassFlag, FoldClass, Member, MemberFlag, Vaddr
from icf.sets import is_in, union
from unwind.program.next_functions import ends_before_others

_BIND_RANK = {1: 0, 10: 0, 2: 1, 0: 2}  # global, unique, weak, local
_Named = tuple[bool, int, str, int]  # no size, rank, name, row: sorted, the best comes first
_VARIANT_DIGIT = re.compile(r"(?<=[CD])[0-5](?=[A-Z])")
_NONE = np.empty(0, np.uint64), np.empty(0, np.uint64)


class SymbolFunctions:
    """The functions of an image, found one at a time.

    `starts[i]` is an address where symbols start, those in `rows[first[i]:first[i + 1]]`; the longest ends at
    `ends[i]`.
    """

    def __init__(self, image: Image, folds_known: bool, described: tuple[U64, U64] = _NONE) -> None:
        """Find where each function ends.

        Args:
            image: the image.
            folds_known: whether its fold classes are known.
            described: where functions begin and end by debug information, for those whose symbols have no size.
        """
        self._image = image
        self._folds_known = folds_known
        symbols = image.symbols
        self._plain = _unversioned if symbols.is_elf else str
        # no symbol of a function was dropped when it was folded
        self.are_all_named = (
            folds_known
            or not image.linker.folds_functions
            or (image.linker.kept_symbols is KeptSymbols.ALL and not symbols.lacks_locals)
        )
        self.rows = symbols.functions
        values = symbols.value[self.rows]
        self.starts, self.first = np.unique(values, return_index=True)
        self.ends = self._make_ends(values, described)
        self._furthest = np.maximum.accumulate(self.ends)

    def _make_ends(self, values: U64, described: tuple[U64, U64]) -> U64:
        starts = self.starts
        if not len(starts):
            return starts
        symbols, sections = self._image.symbols, self._image.symbols_file.sections
        size_bytes = np.maximum.reduceat(symbols.size_bytes[self.rows], self.first)
        size_bytes = np.minimum(size_bytes, ~starts)  # no end beyond 64 bits
        ends = starts + size_bytes
        low, high = described
        limits = union(symbols.limits, low)
        is_asked = is_in(low, starts[size_bytes == 0])
        known = dict(sorted(zip(low[is_asked].tolist(), high[is_asked].tolist(), strict=True)))  # the furthest ends
        for idx in np.flatnonzero(size_bytes == 0).tolist():
            section_idx = int(symbols.shndx[self.rows[self.first[idx]]])
            end = int(starts[idx])
            if section_idx < len(sections):
                section = sections[section_idx]
                end = max(end, min(section.vaddr + section.size_bytes, (1 << 64) - 1))
            if idx + 1 < len(starts):
                end = min(end, int(starts[idx + 1]))
            at = bisect_right(limits.data, starts[idx])
            limit = int(limits[at]) if at < len(limits) else end
            ends[idx] = min(end, limit, known.get(int(starts[idx]), end))
        rows = np.flatnonzero(size_bytes == 0)
        if len(rows):
            ends[rows] = ends_before_others(self._image, starts[rows], ends[rows])
        return ends

    def find(self, vaddr: int) -> FoldClass | None:
        """Return the function whose code holds `vaddr`, if a symbol covers it."""
        if not 0 <= vaddr < 1 << 64:
            return None
        idx = int(np.searchsorted(self.starts, np.uint64(vaddr), side="right")) - 1
        while idx >= 0 and self._furthest[idx] > vaddr:
            if self.ends[idx] > vaddr:
                return self._function(idx)
            idx -= 1
        return None

    def named(self, name: str) -> Sequence[int]:
        """Return where the functions with a symbol of that name start."""
        return self._by_name.get(name, ())

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        symbols = self._image.symbols
        found: dict[str, list[int]] = {}
        for row, name in zip(rows := self.rows.tolist(), symbols.names(rows), strict=True):
            found.setdefault(self._plain(name), []).append(int(symbols.value[row]))
        return found

    def vtable_name(self, vptr: int) -> str:
        """Return the symbol of the vtable that a vtable pointer points into; "" if there is none."""
        start, end, names = self._vtables
        return min((names[row] for row in np.flatnonzero((start <= vptr) & (end > vptr)).tolist()), default="")

    @cached_property
    def _vtables(self) -> tuple[U64, U64, list[str]]:
        """Where the symbols of vtables begin and end, and their names."""
        symbols = self._image.symbols
        named = zip(symbols.names(rows := np.flatnonzero(symbols.type == STT_OBJECT).tolist()), rows, strict=True)
        found = [(row, name) for name, row in named if name.startswith(("_ZTV", "_ZTC"))]
        start = symbols.value[[row for row, _ in found]]
        return start, start + symbols.size_bytes[[row for row, _ in found]], [name for _, name in found]

    def _function(self, idx: int) -> FoldClass:
        symbols = self._image.symbols
        end = self.first[idx + 1] if idx + 1 < len(self.first) else len(self.rows)
        rows = self.rows[self.first[idx] : end]
        columns = (each.tolist() for each in (symbols.size_bytes[rows], symbols.bind[rows], rows))
        named = sorted(
            (size_bytes == 0, _BIND_RANK.get(bind, 3), name, row)
            for size_bytes, bind, row, name in zip(*columns, symbols.names(rows), strict=True)
        )
        if self._folds_known:
            groups = [named]
        elif not self._image.linker.folds_functions:
            aliases_of_c = [entry for entry in named if not _is_mangled(entry[2])]
            groups = [sorted(aliases_of_c, key=self._likely)] if aliases_of_c else []
            groups += _by_function([entry for entry in named if _is_mangled(entry[2])], symbols.file_name)
        else:
            groups = _by_function(named, symbols.file_name)
        members = []
        for group in groups:
            _, rank, name, _ = group[0]
            name = self._plain(name)
            aliases = dict.fromkeys(other for _, _, other, _ in group if other != name)
            flags = MemberFlag.LOCAL if rank == _BIND_RANK[STB_LOCAL] else MemberFlag.NONE
            members.append(Member(name, flags=flags, aliases=tuple(aliases)))
        start = int(self.starts[idx])
        complete = ClassFlag.MEMBERS_COMPLETE if self.are_all_named else ClassFlag.NONE
        return FoldClass(Vaddr(start), int(self.ends[idx]) - start, tuple(members), complete)

    def _likely(self, entry: _Named) -> tuple[bool, bool, bool, int, int]:
        """Return a sort key for the symbols of one C function; the best name comes first."""
        has_no_size, rank, name, row = entry
        is_old = "@" in name and "@@" not in name
        if self._dynamic_rows is not None:
            row = self._dynamic_rows.get(_unversioned(name), -1)
        return has_no_size, rank == _BIND_RANK[STB_LOCAL], is_old, len(name) - len(name.lstrip("_")), -row

    @cached_property
    def _dynamic_rows(self) -> dict[str, int] | None:
        """The place of each name in `.dynsym`, where that is all that the image has itself; else None."""
        if self._image.symbols_file is self._image:
            return None
        symbols = self._image.dynamic_symbols
        rows = range(symbols.count)
        return dict(zip(symbols.names(list(rows)), rows, strict=True))


def _by_function(named: list[_Named], file_name: Callable[[int], str]) -> list[list[_Named]]:
    """Return the symbols of one address, variants of one constructor or destructor together, and versions of one name.

    Two local symbols of one name are two functions, also where their files have one name. One address can have
    thousands of symbols, so only those are compared that may be variants.
    """
    alike: dict[tuple[str, str], list[list[_Named]]] = {}
    groups = []
    for entry in named:
        name = _unversioned(entry[2])
        likely = alike.setdefault((_VARIANT_DIGIT.sub("*", name), file_name(entry[3])), [])
        is_own = entry[1] == _BIND_RANK[STB_LOCAL] and not is_clone_of_shared(name)
        group = next(
            (
                group
                for group in likely
                if same_function(_unversioned(group[0][2]), name)
                and not (is_own and any(other[1:3] == entry[1:3] for other in group))
            ),
            None,
        )
        if group is None:
            group = []
            likely.append(group)
            groups.append(group)
        group.append(entry)
    return groups


def _is_mangled(name: str) -> bool:
    return name.startswith("_Z") or demangle(_unversioned(name)) != _unversioned(name)


def _unversioned(name: str) -> str:
    """Return `memcpy` of memcpy@@GLIBC_2.14, which is another symbol than memcpy@GLIBC_2.2.5."""
    return name.partition("@")[0]
