"""The vtable pointers of the objects in a thread's stack, for frames that stay open without them.

Debug information is read only if there are such frames, and only of their images and those of their callers. What reads
it is imported then: a third of the time that the stacks of a small core file take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from icf.elf.image import Image
from icf.errors import IcfError
from icf.model import Verdict
from unwind.dumps.loaded import Images
from unwind.resolve.vptrs import Vptrs, read_vptrs
from unwind.symbolize.answer import Answer
from unwind.target.search import SearchPaths
from unwind.walk.frame import WalkedFrame

if TYPE_CHECKING:
    from unwind.objects.activation import Described

_OPEN = (Verdict.AMBIGUOUS, Verdict.NARROWED)


class ThreadObjects:
    """Reads them for the threads of one process."""

    def __init__(self, images: Images, search: SearchPaths) -> None:
        self._images, self._search = images, search
        self._described: dict[Image, Described | None] = {}

    def vptrs(self, frames: Sequence[WalkedFrame], answers: Sequence[Answer]) -> Vptrs:
        """Return the index and the run-time vtable pointer of each open frame whose object is known."""
        is_open = [idx for idx, answer in enumerate(answers) if answer.verdict in _OPEN]
        if not is_open:
            return ()
        from unwind.objects.activation import activations
        from unwind.objects.this import read_objects

        stack = activations(frames, self._image_at)
        return read_vptrs(read_objects(stack, self._images, is_open), self._images.read)

    def _image_at(self, address: int) -> tuple[Described, int] | None:
        found = self._images.at(address)
        if found is None:
            return None
        if found.image not in self._described:
            self._described[found.image] = self._describe(found.image)
        described = self._described[found.image]
        return None if described is None else (described, found.bias)

    def _describe(self, image: Image) -> Described | None:
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
