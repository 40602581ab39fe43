"""The stack of the first thread of a core, with what is needed to ask for the parameters of its frames."""

from __future__ import annotations

from pathlib import Path

from icf.elf.image import Image
from icf.filebytes import FileBytes
from unwind.dumps.core import read_core
from unwind.dumps.images import DumpImages
from unwind.dumps.walk import DumpWalker
from unwind.objects.activation import Activation, Described, activations
from unwind.process.image_finder import ImageFinder


class CoreStack:
    """A core; it is the memory of its own stack."""

    def __init__(self, path: Path) -> None:
        self._file, self._finder = FileBytes.open(str(path)), ImageFinder((str(path.parent),))
        self._dump = read_core(self._file)
        self._images = DumpImages(self._dump, self._finder)
        self._described: dict[Image, Described] = {}
        self.registers = self._dump.threads[0].registers
        self.read = self._images.read

    def __enter__(self) -> CoreStack:
        return self

    def __exit__(self, *_: object) -> None:
        self._finder.close()
        self._file.close()

    def stack(self) -> list[Activation]:
        """Return the frames, innermost first."""
        walked = DumpWalker(self._dump, self._images).walk(self._dump.threads[0])
        return activations(walked.frames, self._described_at)

    def module_at(self, address: int) -> tuple[str, int] | None:
        """Return the path of the image at an address, and its load bias."""
        found = self._images.at(address)
        return None if found is None else (found.image.path, found.bias)

    def _described_at(self, address: int) -> tuple[Described, int] | None:
        found = self._images.at(address)
        if found is None:
            return None
        assert isinstance(found.image, Image)
        if found.image not in self._described:
            self._described[found.image] = Described(found.image)
        return self._described[found.image], found.bias
