"""The load bias of an image: what was added to its link-time addresses, found from its mappings.

A loader maps whole pages of the file for each segment, so a page where two segments meet is mapped for both. The bias
that fits a mapping is

    bias = start - (p_vaddr + offset - p_offset)          for the segment that the pages at `offset` belong to

It holds for every kind: prelinked or at a fixed address (bias 0, or the distance it was moved by), several segments of
code, a segment that was cut in pieces (`mprotect`), a file that is loaded twice. If the pages belong to several
segments
of the same rights, the bias is right that the file's other mappings fit best; if two fit as well, none is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from icf.elf.types import PF_X, PT_LOAD, Segment
from unwind.process.maps import Mapping

_PAGE_BYTES = 4096


def bias_of(mapping: Mapping, segments: Iterable[Segment], of_file: Sequence[Mapping]) -> int | None:
    """Return the load bias of the image in `mapping`; `of_file` are all mappings of the same file."""
    loads = [segment for segment in segments if segment.type == PT_LOAD and segment.filesz]
    biases = {
        mapping.start - (segment.vaddr + mapping.offset - segment.offset)
        for segment in loads
        if bool(segment.flags & PF_X) == mapping.is_executable and _covers(segment, mapping.offset)
    }
    if len(biases) < 2:
        return next(iter(biases), None)
    fitting = sorted((sum(_is_mapped(segment, bias, of_file) for segment in loads), bias) for bias in biases)
    return fitting[-1][1] if fitting[-1][0] > fitting[-2][0] else None


def biases_of(mappings: Sequence[Mapping], segments: Sequence[Segment]) -> list[int]:
    """Return the load bias of a file, one for each time that its code is loaded; `mappings` are all of its mappings."""
    found = [bias_of(each, segments, mappings) for each in mappings if each.is_executable]
    return sorted({bias for bias in found if bias is not None})


def bias_of_listed(places: Sequence[tuple[int, int]], segments: Iterable[Segment]) -> int | None:
    """Return the load bias of a file whose mappings are known by start and offset, without rights.

    A single mapping is taken to be that of the code. Of several biases that one is right which most segments fit; if
    two fit as well, none is known.
    """
    loads = [segment for segment in segments if segment.type == PT_LOAD and segment.filesz]
    fitting: dict[int, int] = {}
    for segment in loads:
        biases = {
            start - (segment.vaddr + offset - segment.offset) for start, offset in places if _covers(segment, offset)
        }
        if len(places) > 1 or segment.flags & PF_X:
            for bias in biases:
                fitting[bias] = fitting.get(bias, 0) + 1
    best = [bias for bias, count in fitting.items() if count == max(fitting.values())]
    return best[0] if len(best) == 1 else None


def _covers(segment: Segment, offset: int) -> bool:
    """Return whether the page at an offset of the file is one of those that are mapped for a segment."""
    return segment.offset // _PAGE_BYTES * _PAGE_BYTES <= offset < segment.offset + segment.filesz


def _is_mapped(segment: Segment, bias: int, mappings: Iterable[Mapping]) -> bool:
    start = (segment.vaddr + bias) // _PAGE_BYTES * _PAGE_BYTES
    offset = segment.offset // _PAGE_BYTES * _PAGE_BYTES
    return any(m.start <= start < m.end and m.offset + start - m.start == offset for m in mappings)
