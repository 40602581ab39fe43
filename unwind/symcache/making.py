"""Make the content of a symcache: read an image and its debug information while nobody changes them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from icf.errors import IcfError
from unwind.symcache import container
from unwind.symcache.container import Container, Head, pack
from unwind.symcache.folder import Folder
from unwind.symcache.identity import Recognized, is_settled, recognize, stamp_of
from unwind.symcache.sources import SECTION, Sources

if TYPE_CHECKING:
    from icf.elf.image import Image


class Sought(NamedTuple):
    """An image, and where to look for its debug information."""

    path: str
    debug_file: str | None = None
    debug_roots: tuple[str, ...] = ()

    def open(self) -> Image:
        from icf.debugfiles.options import open_image

        return open_image(self.path, self.debug_file, self.debug_roots)


class Made(NamedTuple):
    """What goes into a file."""

    recognized: Recognized
    head: Head
    sections: dict[str, bytes]

    def in_memory(self) -> Container:
        """The file, without one."""
        return Container(
            memoryview(b"".join(pack(self.head, self.sections))), f"symcache of {self.head.origin['path']}"
        )


def make(sought: Sought, folder: Folder, wanted: Collection[int] | None = None) -> Made:
    """Read an image; with `wanted` what its bodies at these addresses are. Raises `IcfError`."""
    from unwind.symcache.build import build_sections

    started_ns = time.time_ns()
    with sought.open() as image:
        stamp = stamp_of(os.fstat(image.fileno()))
        recognized = _recognize(image, folder)
        sections = build_sections(image, wanted)
        sections[SECTION] = Sources.of(image, started_ns).pack()
        _check_unchanged(image, stamp)
        origin = {"path": os.path.realpath(sought.path), "debug": os.path.realpath(image.debug.path)}
        flags = container.COMPLETE if wanted is None else 0
        head = Head(recognized.identity, recognized.digest, int(image.machine), flags, origin)
    return Made(recognized, head, sections)


def recognize_file(path: str, folder: Folder) -> Recognized:
    """What the file at `path` is: by its stamp if the folder knows that, else by reading it; `IcfError`."""
    try:
        known = Recognized.parse(folder.recall(stamp_of(os.stat(path))))
    except (OSError, ValueError) as error:  # a path with a NUL
        raise IcfError(f"{path}: {getattr(error, 'strerror', error)}") from error
    if known is not None:
        return known
    from icf.elf.image import Image

    with Image.open(path) as image:
        return _recognize(image, folder)


def _recognize(image: Image, folder: Folder) -> Recognized:
    status = os.fstat(image.fileno())
    stamp = stamp_of(status)
    recognized = Recognized.parse(folder.recall(stamp))
    if recognized is None:
        is_lasting = is_settled(status)
        recognized = recognize(image)
        _check_unchanged(image, stamp)
        if is_lasting:
            folder.remember(stamp, str(recognized))
    return recognized


def _check_unchanged(image: Image, stamp: str) -> None:
    if stamp_of(os.fstat(image.fileno())) != stamp:
        raise IcfError(f"{image.path}: changed while it was read")
