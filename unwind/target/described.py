"""The debug information of images, for the objects of frames: opened for the first frame that needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icf.elf.image import Image
from icf.errors import IcfError
from unwind.target.search import SearchPaths

if TYPE_CHECKING:
    from unwind.objects.activation import Described


class DescribedImages:
    """Opens it, in the image or in its debug file."""

    def __init__(self, search: SearchPaths) -> None:
        self._search = search
        self._known: dict[Image, Described | None] = {}

    def of(self, image: Image) -> Described | None:
        """Return the debug information of an image; None if it has none."""
        if image not in self._known:
            self._known[image] = self._open(image)
        return self._known[image]

    def _open(self, image: Image) -> Described | None:
        from unwind.objects.activation import Described

        try:
            self._attach(image)
            return Described(image)
        except IcfError:  # the resolver has reported it
            return None

    def _attach(self, image: Image) -> None:
        from icf.debugfiles.opening import attach_debug
        from icf.debugfiles.search import open_debug_file

        if image.debug is not image:
            return
        if self._search.debug_file is not None:
            try:
                image.attach_debug(open_debug_file(image, self._search.debug_file))
                return
            except IcfError:  # it is of another image
                pass
        attach_debug(image, self._search.debug_roots)
