"""Read all of a kept symcache: to check that it is whole and still true, or to print it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import NamedTuple

from icf.errors import FormatError, IcfError
from icf.model import MemberFlag
from unwind.symcache.format.container import Container
from unwind.symcache.format.records import META
from unwind.symcache.format.sources import SECTION, Sources
from unwind.symcache.reader.found import Located
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.ownership import COMPLETE
from unwind.symcache.store.partial import PartialFile
from unwind.symcache.store.room import Entry


class Finding(NamedTuple):
    """The result for an entry."""

    file: str
    state: str  # "good", "stale": the image or its debug information has changed, "gone": no image, "damaged"
    problem: str


def check_file(entry: Entry, folder: Folder, *, deep: bool = True) -> Finding:
    """Check an entry; all of it, or with `deep` off its head and the files it came from."""
    try:
        kept = Container.open(entry.path)
        if f"{kept.head.identity}-{kept.head.content_check.hex()}" != os.path.splitext(entry.name)[0]:
            return Finding(entry.path, "damaged", "is of another image than its name says")
        if deep:
            kept.check_all()
            check_content(kept, is_complete=entry.name.endswith(COMPLETE))
        sources = Sources.parse(kept.section(SECTION), kept.path)
    except FormatError as error:
        return Finding(entry.path, "damaged", str(error).removeprefix(f"{entry.path}: "))
    except OSError as error:
        return Finding(entry.path, "damaged", error.strerror or str(error))
    path = str(kept.origin.get("path", ""))
    if not os.path.isfile(path):
        return Finding(entry.path, "gone", f"{path or 'its image'} is not there")
    try:
        if str(folder.recognize(path)) != os.path.splitext(entry.name)[0]:
            return Finding(entry.path, "stale", f"{path} has changed")
    except IcfError as error:
        return Finding(entry.path, "stale", str(error))
    problem = sources.problem(path, None, ())
    return Finding(entry.path, "stale" if problem else "good", problem)


def check_content(kept: Container, *, is_complete: bool) -> None:
    """Decode everything. Raise FormatError if that is not possible or one part contradicts another."""
    if not is_complete:
        file = PartialFile(kept)
        for vaddr, answer in file.answers():
            if file.answer(vaddr) != answer:
                raise FormatError(kept.path, "addrs", 0, f"{vaddr:#x} is not found")
        for name, addresses in file.names():
            if file.addresses(name) != addresses:
                raise FormatError(kept.path, "hashes", 0, f"{name} is not found")
        return
    cache = SymCache.from_container(kept)
    if not cache.is_complete:
        raise FormatError(kept.path, "head", 0, "is not complete")
    for body in bodies(cache, kept):
        last = body.start + max(body.size_bytes, 1) - 1
        at_end = cache.find(last)  # a function that lies in this one may have it
        if at_end is None or at_end.start < body.start:
            raise FormatError(kept.path, "sizes", 0, f"the function at {body.start:#x} ends outside of itself")
        is_own_end = at_end.start == body.start
        for at, member in enumerate(body.members):
            cache.frames(body.start, at)
            if is_own_end:
                cache.frames(last, at)
            if member.name and body.start not in cache.addresses(member.name):
                raise FormatError(kept.path, "hashes", 0, f"{member.name} at {body.start:#x} is not found")


def bodies(cache: SymCache, kept: Container) -> Iterator[Located]:
    """Yield all bodies, by address."""
    base, width, count, *_ = META.unpack(kept.piece("meta", 0, META.size))
    starts = kept.piece("starts", 0, width * count).cast("I" if width == 4 else "Q")
    for start in starts:
        found = cache.find(base + start)
        if found is not None and found.start == base + start:
            yield found


def json_lines(kept: Container) -> Iterator[str]:
    """Yield all bodies as JSON, one a line, with the place where each member begins."""
    cache = SymCache.from_container(kept)
    for body in bodies(cache, kept):
        members = []
        for at, member in enumerate(body.members):
            frame = cache.frames(body.start, at)[-1]
            members.append(
                {
                    "linkage_name": member.name,
                    "aliases": list(member.aliases),
                    "flags": [flag.name for flag in MemberFlag if flag in member.flags and flag.name],
                    "file": frame.file,
                    "line": frame.line,
                }
            )
        row = {"address": hex(body.start), "size_bytes": body.size_bytes, "members": members}
        yield json.dumps(row | {"is_complete": body.is_complete}, separators=(",", ":")) + "\n"
