"""Symcaches for tests: in memory, and what llvm-symbolizer says of the same image."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from icf.elf.image import Image
from tests.support.toolchain import tool
from unwind.program.frame import Frame
from unwind.symcache.builder.build import build_sections
from unwind.symcache.format.container import COMPLETE, Container, Head, Identity, SectionBytes, pack
from unwind.symcache.reader.many import frames_many
from unwind.symcache.reader.symcache import SymCache

HEAD = Head(Identity(2, bytes(20)), bytes(16), 62, COMPLETE)


def packed(sections: Mapping[str, SectionBytes], *, is_complete: bool = True) -> SymCache:
    """The cache of some sections."""
    head = HEAD if is_complete else HEAD._replace(flags=0)
    return SymCache(Container(memoryview(b"".join(pack(head, sections, {}))), "cache"))


def cache_of(path: Path, wanted: Collection[int] | None = None) -> SymCache:
    """The cache of an image."""
    with Image.open(path) as image:
        return packed(build_sections(image, wanted), is_complete=wanted is None)


def symbolized(path: Path, vaddrs: Sequence[int]) -> list[list[Frame]]:
    """The frames at each address as llvm-symbolizer tells them."""
    command = [tool("llvm-symbolizer"), "--inlines", "--no-demangle", "--output-style=JSON"]
    asked = "\n".join(map(hex, vaddrs))
    done = subprocess.run([*command, "-e", str(path)], input=asked, capture_output=True, text=True, check=True)
    answers = []
    for line in done.stdout.splitlines():
        symbols = json.loads(line)["Symbol"]
        answers.append(
            [
                Frame(frame["FunctionName"], frame["FileName"], frame["Line"], frame["Column"], i < len(symbols) - 1)
                for i, frame in enumerate(symbols)
            ]
        )
    return answers


def differences(path: Path, cache: SymCache, vaddrs: Sequence[int]) -> list[tuple[int, list[Frame], object]]:
    """Addresses in unmerged functions where the two do not say the same.

    Of the names of one function any will do. llvm-symbolizer names a file where there is no line, from the symbols.
    """
    found: list[tuple[int, list[Frame], object]] = []
    for vaddr, ours, theirs in zip(vaddrs, frames_many(cache, vaddrs), symbolized(path, vaddrs), strict=True):
        located = cache.find(vaddr)
        if located is None or len(located.members) > 1:
            continue
        assert cache.frames(vaddr) == ours
        member = located.members[0]
        if theirs[-1].linkage_name in (member.name, *member.aliases):
            theirs[-1] = theirs[-1]._replace(linkage_name=member.name)
        theirs = [
            frame._replace(file=own.file) if not frame.line and not own.line else frame
            for frame, own in zip(theirs, ours, strict=False)
        ] + theirs[len(ours) :]
        if ours != theirs:
            found.append((vaddr, ours, theirs))
    return found


def code_of(path: Path) -> range:
    """The addresses of `.text`."""
    with Image.open(path) as image:
        section = image.section(".text")
        assert section is not None
        return range(section.vaddr, section.vaddr + section.size_bytes)
