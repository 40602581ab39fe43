"""Copies of the inputs of a link in which some functions are marked to stay apart (`linkpass.distinct.marking`).

    main.o                  FOLDER/0/main.o
    lib/libshop.a(till.o)   FOLDER/1/libshop.a, with all members

The name of a file stays, since linker scripts and `--exclude-libs` go by it. A function is marked by its name in its
object; its mark follows from both, so that a second link has the same.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import count
from typing import NamedTuple

from icf.elf.archive import Archive, is_archive, is_thin, map_file
from icf.elf.objectfile import ObjectFile
from icf.errors import IcfError
from icf.linkinputs.inputs import canonical_member, split_member
from linkpass.distinct.archives import copied_archive, copied_thin_archive
from linkpass.distinct.marking import Mark, Parts, marked

_MARK_BITS = 62


class ApartFunction(NamedTuple):
    """A function that stays apart."""

    input: str  # as the linker names it: main.o, lib.a(member.o)
    symbol: str
    size_bytes: int
    twin: str = ""  # an input with the same local function, with which this one may fold; "" for none


class Copies:
    """The copies of one link, in a directory."""

    def __init__(self, folder: str) -> None:
        self.by_path: dict[str, str] = {}  # original -> copy
        self.members: dict[str, str] = {}  # paths in copies of thin archives -> in the originals
        self.missing: list[ApartFunction] = []  # functions that are not in the inputs, or whose input cannot be copied
        self.impossible: set[str] = set()  # these files, or `lib.a(member.o)`
        self._folder = folder
        self._numbers = count()

    def make(self, functions: Iterable[ApartFunction]) -> None:
        """Write the copies in which these functions are marked."""
        by_file: dict[str, dict[str, list[ApartFunction]]] = {}
        for function in functions:
            path, member = split_member(function.input)
            by_file.setdefault(path, {}).setdefault(member, []).append(function)
        for path, by_member in by_file.items():
            try:
                self._make_file(path, by_member)
            except (IcfError, OSError):
                self.impossible.add(path)
                self.missing += [each for functions in by_member.values() for each in functions]

    def _make_file(self, path: str, by_member: Mapping[str, list[ApartFunction]]) -> None:
        buffer = map_file(path)
        if not is_archive(buffer):
            parts = self._marked(buffer, path, [each for functions in by_member.values() for each in functions])
            if parts:
                self.by_path[path] = self._write(path, parts)
            return
        archive, is_by_path = Archive(buffer, path), is_thin(buffer)

        def key(member: str) -> str:
            return os.path.abspath(os.path.join(os.path.dirname(path), member)) if is_by_path else member

        wanted = {key(member): functions for member, functions in by_member.items()}
        names = {entry.offset: key(canonical_member(path, archive.name(entry))) for entry in archive}
        counts = Counter(names.values())
        new: dict[int, Parts] = {}
        for entry in archive:
            name = names[entry.offset]
            if name in wanted and counts[name] == 1:
                parts = self._marked(archive.contents(entry), f"{path}({entry.name})", wanted[name])
                if parts:
                    new[entry.offset] = parts
        for name, functions in wanted.items():
            if counts[name] != 1:  # the linker does not say which of those it means
                self.missing += functions
                self.impossible |= {function.input for function in functions}
        if new and is_by_path:
            members = {entry.offset: entry.name for entry in archive}
            files = {offset: self._write(members[offset], parts) for offset, parts in new.items()}
            self.members |= {files.get(at) or key(name): name for at, name in members.items()}
            self.by_path[path] = self._write(path, copied_thin_archive(buffer, path, files))
        elif new:
            self.by_path[path] = self._write(path, copied_archive(buffer, path, new))

    def original(self, name: str) -> str:
        """Return the name of an input of the link without the places of copies."""
        for path, copy in self.by_path.items():
            if name == copy:
                return path
            if name.startswith(f"{copy}(") and name.endswith(")"):
                member = name[len(copy) + 1 : -1]
                return f"{path}({self.members.get(member, member)})"
        return self.members.get(name, name)

    def names(self) -> dict[str, str]:
        """Return the user's names of all files that were written."""
        own = {copy: path for path, copy in self.by_path.items()}
        return own | {copy: name for copy, name in self.members.items() if copy.startswith(self._folder)}

    def _marked(self, buffer: memoryview, name: str, functions: Iterable[ApartFunction]) -> Parts:
        """Return the object with its marks; nothing if it has none of the functions."""
        object_file = ObjectFile.parse(buffer, name)
        symbols = object_file.symbols
        rows_of: dict[str, list[int]] = {}
        for row, symbol in zip(rows := object_file.functions.tolist(), symbols.names(rows), strict=True):
            rows_of.setdefault(symbol, []).append(row)
        marks: dict[int, Mark] = {}
        for function in functions:
            for number, row in enumerate(rows_of.get(function.symbol, ())):
                mark = Mark(_number(function, number), row if function.twin else 0)
                marks.setdefault(int(symbols.shndx[row]), mark)
            if function.symbol not in rows_of:
                self.missing.append(function)
        return marked(object_file, marks) if marks else []

    def _write(self, path: str, parts: Parts) -> str:
        folder = os.path.join(self._folder, str(next(self._numbers)))
        os.mkdir(folder)
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, "xb") as file:
            for part in parts:
                file.write(part)
        return copy


def _number(function: ApartFunction, number: int) -> int:
    text = "\0".join((function.twin or function.input, function.symbol, str(number)))
    digest = sha256(text.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "little") >> (64 - _MARK_BITS)
