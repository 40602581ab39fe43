"""The images of a process that was copied: where they lay, and the memory that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from icf.elf.types import PF_W, PT_LOAD
from icf.errors import FormatError
from icf.image import AnyImage
from icf.log import warn
from unwind.dumps.dump import CopiedMemory
from unwind.walk.images import ImageSteps
from unwind.walk.windows import WindowsSteps


@dataclass(frozen=True, slots=True, eq=False)
class LoadedImage:
    """An image and where it lay: `start` and `end` are run-time addresses."""

    image: AnyImage
    bias: int
    start: int
    end: int
    steps: ImageSteps | WindowsSteps


class Images(Protocol):
    """Finds images by run-time addresses; it is a `walk.frame.Memory`, too."""

    def at(self, address: int) -> LoadedImage | None:
        """Return the image that lies at an address; None if it is not found, or nothing lies there."""

    def problem_at(self, address: int) -> str:
        """Return why the image at an address was not found; empty if it was, or nothing lies there."""

    def read(self, address: int, size_bytes: int, /) -> bytes | None:
        """Return memory of the process; None if one of the bytes is not known."""


def loaded(image: AnyImage, bias: int, start: int, end: int) -> LoadedImage:
    """Return an image at its place; a malformed entry of its call frame information is reported once."""
    steps = WindowsSteps(image, _report) if image.format == "PE" else ImageSteps(image, _report)
    return LoadedImage(image, bias, start, end, steps)


def read(memory: CopiedMemory, images: Images, address: int, size_bytes: int) -> bytes | None:
    """Return memory of the process: what was copied, else what is constant in an image; None if that is not known."""
    extent = memory.extent(address)
    if extent is not None:
        return bytes(memory.view(address, address + size_bytes)) if address + size_bytes <= extent[1] else None
    found = images.at(address)
    if found is None or found.image.format == "PE":  # the loader adds the bias to pointers in constant data
        return None
    vaddr = address - found.bias
    for segment in found.image.segments:
        if segment.type == PT_LOAD and segment.vaddr <= vaddr < segment.vaddr + segment.filesz:
            content = b"" if segment.flags & PF_W else bytes(found.image.read(vaddr, size_bytes))
            return content if len(content) == size_bytes else None
    return None


def _report(error: FormatError) -> None:
    warn(f"{error}: stacks end at code without call frames")
