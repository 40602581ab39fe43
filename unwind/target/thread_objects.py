"""The vtable pointers of the objects in a thread's stack, for frames that stay open without them.

Debug information is read only if there are such frames, and only of their images and those of their callers. What reads
it is imported then: a third of the time that the stacks of a small core file take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from icf.model import Verdict
from unwind.dumps.loaded import Images
from unwind.resolve.vptrs import Vptrs, read_vptrs
from unwind.symbolize.answer import Answer
from unwind.target.described import DescribedImages
from unwind.target.search import SearchPaths
from unwind.walk.frame import WalkedFrame

if TYPE_CHECKING:
    from unwind.objects.activation import Described

_OPEN = (Verdict.AMBIGUOUS, Verdict.NARROWED)


def open_frames(answers: Iterable[Answer]) -> tuple[int, ...]:
    """Return the frames that stay open, by index."""
    return tuple([idx for idx, answer in enumerate(answers) if answer.verdict in _OPEN])


class ThreadObjects:
    """Reads them for the threads of one process."""

    def __init__(self, images: Images, search: SearchPaths) -> None:
        self._images, self._described = images, DescribedImages(search)

    def vptrs(self, frames: Sequence[WalkedFrame], answers: Sequence[Answer]) -> Vptrs:
        """Return the index and the run-time vtable pointer of each open frame whose object is known."""
        is_open = open_frames(answers)
        if not is_open:
            return ()
        from unwind.objects.activation import activations
        from unwind.objects.this import read_objects

        stack = activations(frames, self._image_at)
        return read_vptrs(read_objects(stack, self._images, is_open), self._images.read)

    def _image_at(self, address: int) -> tuple[Described, int] | None:
        found = self._images.at(address)
        if found is None or found.image.format == "PE":
            return None
        described = self._described.of(found.image)
        return None if described is None else (described, found.bias)
