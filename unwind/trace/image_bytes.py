"""Bytes of instructions for traces that have none: from the binaries, where `modules.log` says that these lay."""

from __future__ import annotations

from icf.errors import IcfError
from icf.image import Image
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.load_address import bias_of_listed
from unwind.samples.recording import Base, RecordedModule, RecordedProcess

_HINT = "-e IMAGE, or --binary-dir DIR with the binaries of the machine that recorded the trace"


class ImageBytes:
    """The code of a traced process."""

    def __init__(self, process: RecordedProcess, finder: ImageFinder) -> None:
        self._modules, self._finder = process.modules, finder
        self._found: dict[RecordedModule, tuple[Image, int]] = {}

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return the bytes of an instruction.

        Raises `IcfError` where they lie in no module, or in one of which the binary is not found or has not as many.
        """
        for module in self._modules:
            if module.start <= address < module.end or module.base is Base.LINKED:
                break
        else:
            raise IcfError(f"instruction at {address:#x}: lies in none of the modules that are listed")
        image, bias = self._image(module, address)
        code = bytes(image.read(address - bias, size_bytes)) if address >= bias else b""
        if len(code) != size_bytes:
            raise IcfError(f"instruction at {address:#x}: {module.path} has no code there", hint=_HINT)
        return code

    def _image(self, module: RecordedModule, address: int) -> tuple[Image, int]:
        """Return the image of a module, and what was added to its addresses as linked."""
        known = self._found.get(module)
        if known is None:
            image = self._finder.find(Sought.of(module))
            if isinstance(image, str):
                raise IcfError(f"instruction at {address:#x}: its bytes are in {module.path}: {image}", hint=_HINT)
            bias: int | None = 0
            if module.base is Base.RUN_TIME:
                bias = bias_of_listed(((module.start, module.offset),), image.segments)
            if bias is None:
                raise IcfError(
                    f"instruction at {address:#x}: {image.path} is not mapped as {module.path} was", hint=_HINT
                )
            known = self._found[module] = image, bias
        return known
