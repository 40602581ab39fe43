"""The objects of a link, one after the other, however they are named.

    for obj in open_inputs(["main.o", "libx.a", "liby.a(member.o)", "@link.rsp", *parse_link_map("a.map")]):
        ...

An object is named as linkers print it, so that their reports can be matched: by its path as given, or
`lib.a(member.o)`. They agree but for details: mold drops a leading "./", gold and mold show a thin archive's
member with the directory of the archive before it.

An input that is not an object is skipped without an error, since link maps and response files name such inputs as well:
LLVM bitcode (its code was compiled during the link, into temporary objects that are gone), shared objects,
linker scripts, resource files. `skipped` has each with the reason. A file that does not exist is an error, all of
them in one, before the first object is read; with `missing_ok` they are listed in `missing`. A corrupt object
is an error: the link cannot have read it.

A whole archive stands for all its members, the linked ones and the others; a link map names exactly those that
were linked. An input that is named twice comes once, where it is named first.

Objects are made while iterating, and each keeps its file mapped for as long as it lives: use one object, keep only what
is needed of it, drop it, take the next.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Self

from icf.elf.archive import Archive, Member, MissingFileError, is_archive, map_file
from icf.elf.headers import is_bitcode
from icf.elf.objectfile import ObjectFile
from icf.elf.types import ET_CORE, ET_DYN, ET_EXEC
from icf.errors import IcfError
from icf.linkinputs.commandline import input_words
from icf.linkinputs.responsefile import expand

_MEMBER = re.compile(r"(.+)\((.+)\)", re.DOTALL)
_LISTED_COUNT = 5
_ELF_TYPES = {ET_EXEC: "an executable", ET_DYN: "a shared object", ET_CORE: "a core dump"}


class Skipped(NamedTuple):
    """An input that is not read."""

    name: str
    reason: str


class _Input(NamedTuple):
    """One file, or one member of the archive `path`."""

    name: str  # as given
    path: str
    archive: str  # as it stands in `name`
    member: str


class LinkInputs(Iterator[ObjectFile]):
    """The objects, in the order of the inputs; `missing` and `skipped` are complete at the end."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        directory: str = "",
        missing_ok: bool = False,
        opened: Mapping[str, memoryview] | None = None,
        pipes: Collection[str] = (),
    ) -> None:
        self.missing: list[str] = []
        self.skipped: list[Skipped] = []
        self._directory = directory
        self._missing_ok = missing_ok
        self._pipes = frozenset(os.path.join(directory, path) for path in pipes)
        self._opened = opened if opened is not None else {}
        self._archives: dict[str, tuple[Archive, dict[str, list[Member]]]] = {}
        self._seen: set[str] = set()
        plan = self._expand(paths)
        self._refuse_missing()
        self._objects = chain.from_iterable(map(self._open, plan))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ObjectFile:
        return next(self._objects)

    def of(self, path: str) -> Iterator[ObjectFile]:
        """Yield the objects of one more input."""
        plan = self._expand([path])
        self._refuse_missing()
        return chain.from_iterable(map(self._open, plan))

    # Names

    def _expand(self, paths: Sequence[str]) -> list[_Input]:
        """Return the files and members that are named; `missing` gets those that do not exist."""
        words: list[str] = []
        for path in paths:
            if path.startswith("@"):
                inputs, libraries = input_words(expand([path], self._directory))
                words += inputs
                self.skipped += [Skipped(word, "a library by its option; name the file") for word in libraries]
            else:
                words.append(path)
        plan = []
        exists: dict[str, bool] = {}
        for word in words:
            match = _MEMBER.fullmatch(word)
            for name, member in ((word, ""), match.groups() if match else ("", "")):
                path = os.path.join(self._directory, name)
                if path not in exists:
                    exists[path] = path in self._opened or (bool(name) and os.path.exists(path))
                if exists[path]:
                    plan.append(_Input(word, path, name, member))
                    break
            else:
                self.missing.append(word)
        return plan

    def _refuse_missing(self) -> None:
        if not self.missing or self._missing_ok:
            return
        listed = ", ".join(self.missing[:_LISTED_COUNT])
        more = len(self.missing) - _LISTED_COUNT
        raise IcfError(
            f"{len(self.missing)} inputs of the link do not exist: {listed}{f' and {more} more' * (more > 0)}",
            hint="paths are relative to the directory that the link ran in",
        )

    # Files

    def _open(self, one: _Input) -> Iterator[ObjectFile]:
        if one.member:
            yield from self._one_member(one.name, one.path, one.archive, one.member)
            return
        file = os.path.abspath(one.path)
        if file in self._seen:
            return
        self._seen.add(file)
        try:
            buffer = self._map(one.path)
        except MissingFileError:  # removed since
            self._note_missing(one.name)
            return
        if is_archive(buffer):
            yield from self._all_members(one.name, Archive(buffer, one.path))
        else:
            yield from self._objects_in(buffer, one.name)

    def _map(self, path: str) -> memoryview:
        buffer = self._opened.get(path)
        return buffer if buffer is not None else map_file(path, may_be_pipe=path in self._pipes)

    def _one_member(self, name: str, path: str, archive_name: str, member: str) -> Iterator[ObjectFile]:
        """Yield the members that `lib.a(member.o)` stands for; several may have the name."""
        member, file = canonical_member(archive_name, member), os.path.abspath(path)
        if file in self._seen or f"{file}({member})" in self._seen:
            return
        self._seen.add(f"{file}({member})")
        if path not in self._archives:
            try:
                archive = Archive(self._map(path), path)
            except MissingFileError:  # removed since
                self._note_missing(name)
                return
            index: dict[str, list[Member]] = {}
            for entry in archive:
                member_name = canonical_member(archive_name, self._member_name(archive, entry))
                index.setdefault(member_name, []).append(entry)
            self._archives[path] = archive, index
        archive, index = self._archives[path]
        if member not in index:
            self._note_missing(name)
        for entry in index.get(member, ()):
            yield from self._member(name, archive, entry)

    def _all_members(self, name: str, archive: Archive) -> Iterator[ObjectFile]:
        file = os.path.abspath(archive.path)
        for entry in archive:
            member = self._member_name(archive, entry)
            if f"{file}({canonical_member(name, member)})" not in self._seen:
                yield from self._member(f"{name}({member})", archive, entry)

    def _member_name(self, archive: Archive, entry: Member) -> str:
        try:
            return archive.name(entry)
        except MissingFileError:
            return entry.name

    def _member(self, name: str, archive: Archive, entry: Member) -> Iterator[ObjectFile]:
        try:
            buffer = archive.contents(entry)
        except MissingFileError:
            self._note_missing(name)
            return
        yield from self._objects_in(buffer, name)

    def _note_missing(self, name: str) -> None:
        self.missing.append(name)
        self._refuse_missing()

    def _objects_in(self, buffer: memoryview, name: str) -> Iterator[ObjectFile]:
        """Yield the object, or none and record the reason."""
        reason = _not_an_object(buffer)
        if reason:
            self.skipped.append(Skipped(name, reason))
            return
        yield ObjectFile.parse(buffer, name)


def open_inputs(
    paths: Sequence[str],
    *,
    directory: str = "",
    missing_ok: bool = False,
    opened: Mapping[str, memoryview] | None = None,
    pipes: Collection[str] = (),
) -> LinkInputs:
    """Return the objects that `paths` name: objects, archives, `lib.a(member.o)`, `@response`.

    Relative paths, those in response files too, are looked up in `directory`; objects are named as given. `opened`
    has the contents of files by their path, in place of the files; it may grow while objects are read. Paths in
    `pipes`, which the user named, may be pipes; a path that a file names may not.
    """
    return LinkInputs(paths, directory=directory, missing_ok=missing_ok, opened=opened, pipes=pipes)


def split_member(name: str) -> tuple[str, str]:
    """Return the file and the member that an input names; the latter is "" for an input that is not in an archive."""
    match = _MEMBER.fullmatch(name)
    if match is None or os.path.exists(name):
        return name, ""
    return match[1], canonical_member(match[1], match[2])


def canonical_member(archive: str, member: str) -> str:
    """Return a member's name without the directory of the archive, as linkers print it."""
    directory, member = os.path.dirname(os.path.normpath(archive)), os.path.normpath(member)
    return member.removeprefix(os.path.join(directory, "")) if directory else member


def _not_an_object(buffer: memoryview) -> str:
    """Return the reason why the bytes are not a relocatable object; "" if they are one, or a damaged one."""
    if is_bitcode(buffer):
        return "LLVM bitcode, compiled during the link"
    if len(buffer) == 0:
        return "an empty file"
    if bytes(buffer[:4]) != b"\x7fELF":
        return "not an ELF file"
    if len(buffer) >= 18:
        return _ELF_TYPES.get(int.from_bytes(buffer[16:18], "little"), "")
    return ""
