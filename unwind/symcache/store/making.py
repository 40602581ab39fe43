"""Make the content of a symcache: read an image and its debug information, and check that they did not change
meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from icf.filedigest import stamp_of
from icf.log import progress
from unwind.symcache.format import container
from unwind.symcache.format.container import Container, Head, SectionBytes, pack
from unwind.symcache.format.identity import Recognized
from unwind.symcache.format.sources import SECTION, Sought, Sources
from unwind.symcache.store.folder import ChangedError, Folder, again_if_changed
from unwind.symcache.store.ownership import COMPLETE

if TYPE_CHECKING:
    from icf.image import AnyImage

_MOMENT_BYTES = 32 << 20


class Made(NamedTuple):
    """The content of a file."""

    recognized: Recognized
    head: Head
    sections: dict[str, SectionBytes]
    origin: dict[str, str]

    @property
    def name(self) -> str:
        """Return the name of the file for a complete image."""
        return f"{self.recognized}{COMPLETE}"

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the file."""
        return pack(self.head, self.sections, self.origin)

    def in_memory(self) -> Container:
        """Return the file, in memory only."""
        return Container(memoryview(b"".join(self.pieces())), f"symcache of {self.origin['path']}")


def make(sought: Sought, folder: Folder, wanted: Collection[int] | None = None) -> Made:
    """Read an image; with `wanted` only the bodies at these addresses. Raise IcfError."""
    return again_if_changed(lambda: _make(sought, folder, wanted))


def _make(sought: Sought, folder: Folder, wanted: Collection[int] | None) -> Made:
    started_ns = time.time_ns()
    with sought.open() as image:
        _report(image)
        stamp = stamp_of(os.fstat(image.fileno()))
        made = make_of(image, folder.recognize_image(image), wanted)
        made.sections[SECTION] = Sources.of(image, started_ns).pack()
        if stamp_of(os.fstat(image.fileno())) != stamp:
            raise ChangedError(f"{image.path}: changed while it was read")
    return made


def make_of(image: AnyImage, recognized: Recognized, wanted: Collection[int] | None = None) -> Made:
    """Return the same of an image that is open, for a symcache that is not kept."""

    is_stale = False
    if image.format == "PE":
        from unwind.symcache.builder.pe import build_pe_sections
        from unwind.symcache.builder.program import pack_pe_program

        sections = build_pe_sections(image, wanted)
        if wanted is None:
            sections |= pack_pe_program(image)
    else:
        from icf.tables.place import are_stale
        from unwind.symcache.builder.build import build_sections
        from unwind.symcache.builder.program import pack_program

        sections = build_sections(image, wanted)
        if wanted is None:
            sections |= pack_program(image)
        is_stale = are_stale(image)
    flags = (container.COMPLETE if wanted is None else 0) | (container.STALE_TABLES if is_stale else 0)
    head = Head(recognized.identity, recognized.digest, int(image.machine), flags)
    origin = {"path": os.path.realpath(image.path), "debug": os.path.realpath(image.debug.path)}
    return Made(recognized, head, sections, origin)


def _report(image: AnyImage) -> None:
    """Report that an image is read, if that takes a noticeable time."""
    if len(image.debug.data) > _MOMENT_BYTES:
        progress(f"reading {os.path.basename(image.path)}, once")
