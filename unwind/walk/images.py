"""The steps of an image: for an address, how to get to the caller's registers."""

from __future__ import annotations

from collections.abc import Callable

from icf.dwarf.cfi.frames import CallFrames, Row
from icf.elf.image import Image
from icf.errors import FormatError
from unwind.walk.plt import plt_row


class ImageSteps:
    """Finds rows by addresses as linked; `report` is called once, for the first entry that is malformed."""

    def __init__(self, image: Image, report: Callable[[FormatError], None]) -> None:
        self._image, self._frames = image, CallFrames(image)
        self._report, self._has_reported = report, False

    def row_at(self, vaddr: int) -> Row | None:
        """Return the row of an address; None if the image has none, or one that is malformed."""
        try:
            row = self._frames.row_at(vaddr)
        except FormatError as error:
            if not self._has_reported:
                self._has_reported = True
                self._report(error)
            return None
        return row if row is not None else plt_row(self._image, vaddr)
