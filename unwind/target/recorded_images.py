"""The images of recorded modules, each at one place in an address space for all processes of a recording.

    process 17   libx.so at 0x7f0000000000     0x7f0000001204 ─┐
    process 23   libx.so at 0x7fa100000000     0x7fa100001204 ─┴─>  0x7f0000001204   place of libx.so

An image lies where it was first seen, if nothing else does: mostly the addresses of a recording stay as they are.
An image whose program headers are gone, of which only the symcache is kept, is found by addresses as linked alone.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

from icf.elf.types import PF_X, PT_LOAD, Machine, Segment
from icf.errors import FormatError
from icf.image import AnyImage
from icf.log import warn
from unwind.process.image_finder import ImageFinder, Sought
from unwind.process.load_address import bias_of_listed
from unwind.process.module_list import kept_cache
from unwind.program.exports import Exports, ListedExports
from unwind.program.image_exports import ImageExports
from unwind.program.pe_facts import pe_exports
from unwind.samples.recording import Base, RecordedModule
from unwind.symcache.reader.program import KeptFacts
from unwind.symcache.reader.symcache import SymCache
from unwind.walk.frame_pointer import FRAME_POINTERS, has_frame
from unwind.walk.images import ImageSteps

_PAGE_BYTES = 4096
_MOVED_FROM = 1 << 46  # where images are placed that something else lies in the way of
_GAP_BYTES = 1 << 30


@dataclass(eq=False, slots=True)
class PlacedImage:
    """An image and its place; `bias` is what was added to its addresses as linked."""

    recorded_path: str
    path: str  # where it is; "" if only its symcache is there
    cache: SymCache | None  # that one
    exports: Exports
    segments: Sequence[Segment]
    machine: Machine
    span: tuple[int, int]  # as linked
    image: AnyImage | None = None  # None: only its symcache is there
    bias: int = 0
    is_placed: bool = False
    _steps: ImageSteps | None = None

    def has_frame(self, vaddr: int) -> bool:
        """Return whether a walk along frame pointers finds the caller of what is at an address as linked."""
        if self.image is None or self.image.format == "PE" or self.machine not in FRAME_POINTERS:
            return False
        try:
            if self._steps is None:
                self._steps = ImageSteps(self.image, _report)
        except FormatError as error:
            self.image = None
            _report(error)
            return False
        row = self._steps.row_at(vaddr)
        return row is not None and has_frame(row, self.machine)

    @property
    def lowest(self) -> int:
        """The lowest address as linked, at the beginning of its page."""
        return self.span[0] // _PAGE_BYTES * _PAGE_BYTES

    @property
    def start(self) -> int:
        """The lowest address of its place."""
        return self.lowest + self.bias

    @property
    def end(self) -> int:
        """The address after its place."""
        return self.span[1] + self.bias


@dataclass(eq=False, slots=True)
class Located:
    """Where a recorded module is: what is added to a recorded address is `to_linked`, then the image's bias."""

    image: PlacedImage
    to_linked: int


class RecordedImages:
    """Finds and places images."""

    def __init__(self, finder: ImageFinder, cache_dir: str | None = None) -> None:
        self._finder, self._cache_dir = finder, cache_dir
        self._images: dict[Sought, PlacedImage | str] = {}  # or the problem
        self._of_files: dict[tuple[str, AnyImage], PlacedImage] = {}
        self._located: dict[tuple[str, RecordedModule], Located | str] = {}
        self._places: list[tuple[int, int]] = []  # start and end, ascending

    def locate(self, module: RecordedModule, root: str = "") -> Located | None:
        """Return where a module is; None, if its image is not found, or is not mapped like that."""
        located = self._known(module, root)
        return located if isinstance(located, Located) else None

    def address(self, address: int, module: RecordedModule, root: str = "", *, in_call: bool = False) -> int | None:
        """Return where an address in a module lies among the places; None, and counted, if its image is not known.

        `in_call`: it is that of a call, or less one; less one is what is returned.
        """
        located = self._known(module, root)
        if isinstance(located, str):
            if located:
                self._finder.lack(located, address - module.start + module.offset)
            return None
        if in_call and located.image.machine is Machine.AARCH64:
            address |= 3  # a call has four bytes
        linked = address + located.to_linked
        if module.base is Base.OFFSET:
            linked = _of_offset(address, located.image.segments)
        low, high = located.image.span
        return linked + located.image.bias if low <= linked <= high else None

    def exported(self, module: RecordedModule, symbol: str) -> list[int]:
        """Return where, as linked, a module has a symbol that it exports."""
        image = self._image(module, "")
        return [] if isinstance(image, str) else sorted({each.vaddr for each in image.exports.find(symbol)})

    def _known(self, module: RecordedModule, root: str) -> Located | str:
        known = self._located.get((root, module))
        if known is None:
            image = self._image(module, root)
            known = image if isinstance(image, str) else self._locate(module, image)
            self._located[root, module] = known
        return known

    def _locate(self, module: RecordedModule, image: PlacedImage) -> Located | str:
        to_linked = 0
        if module.base is Base.RUN_TIME:
            bias = _bias(module, image)
            if bias is None:
                return f"{image.path or module.path}: no segment of it is mapped as {module.path} is"
            to_linked = -bias
        elif module.base is Base.LOWEST:
            to_linked = image.lowest
        elif module.base is Base.OFFSET and not image.segments:
            return f"{module.path}: offsets in the file mean nothing without its program headers"
        if image.end == image.start:
            return f"{image.path}: has nothing that is loaded"
        self._place(image, -to_linked)
        return Located(image, to_linked)

    def _place(self, image: PlacedImage, bias: int) -> None:
        """Give an image its place, if it has none: at `bias` if that is free."""
        if image.is_placed:
            return
        image.is_placed, image.bias = True, bias
        if image.start < 0 or image.end > 1 << 64 or not self._is_free(image.start, image.end):
            start = max([_MOVED_FROM, *[end for _, end in self._places if end < 2 * _MOVED_FROM]]) + _GAP_BYTES
            image.bias += start // _PAGE_BYTES * _PAGE_BYTES - image.start
        insort(self._places, (image.start, image.end))

    def _is_free(self, start: int, end: int) -> bool:
        at = bisect_right(self._places, (start, end))
        return (at == 0 or self._places[at - 1][1] <= start) and (at == len(self._places) or end <= self._places[at][0])

    def _image(self, module: RecordedModule, root: str) -> PlacedImage | str:
        sought = Sought.of(module, root)
        known = self._images.get(sought)
        if known is None:
            known = self._images[sought] = self._find(sought)
        return known

    def _find(self, sought: Sought) -> PlacedImage | str:
        """Return the image of a module, or why there is none; "" where nothing is missing."""
        path, build_id = sought.path, sought.build_id
        if not build_id and path[:1] in ("", "["):
            return ""  # [vdso], [heap]
        image = self._finder.find(sought) if sought.pe is None else self._finder.find_pe(sought)
        if not isinstance(image, str):
            key = path, image
            if key not in self._of_files:
                self._of_files[key] = _placed(path, image)
            return self._of_files[key]
        cache = kept_cache(build_id, self._cache_dir)
        if cache is None:
            return image
        facts = KeptFacts(cache)
        return PlacedImage(path, "", cache, facts.exports, (), facts.machine, facts.span)


def _placed(path: str, image: AnyImage) -> PlacedImage:
    """Return an image without a place; PE images have no segments, as each is mapped in one piece."""
    exports = ListedExports(pe_exports(image)) if image.format == "PE" else ImageExports(image)
    segments = () if image.format == "PE" else image.segments
    return PlacedImage(path, image.path, None, exports, segments, image.machine, image.span, image)


def _report(error: FormatError) -> None:
    warn(f"{error}: there a walk along frame pointers may have left out callers")


def _bias(module: RecordedModule, image: PlacedImage) -> int | None:
    """Return what the loader added to the addresses of an image; None if its mapping does not say."""
    if image.segments:
        return bias_of_listed(((module.start, module.offset),), image.segments)
    if module.offset:
        return None
    return module.start - image.lowest


def _of_offset(offset: int, segments: Sequence[Segment]) -> int:
    """Return the address as linked of an offset in the file; -1 if no code is there."""
    for segment in segments:
        if segment.type == PT_LOAD and segment.flags & PF_X and 0 <= offset - segment.offset < segment.filesz:
            return segment.vaddr + offset - segment.offset
    return -1
