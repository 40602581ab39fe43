"""Stacks whose addresses have the wrong base: detected by how few return addresses follow a call; one warning a module.

Addresses come as run-time ones, as link-time ones, and as offsets in the file (perf script up to 6.3); with load
addresses of the first mapping, or of the one that holds the code. A wrong base shows: of 894 real return addresses all
follow a call, of the same with 0x1000 too little 2 do. The right address is searched for among some pages in
both directions and the differences between address and file offset of the image's segments; the warning names it if it
makes nearly all fit, and it is never applied: it would be a vote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icf.elf.types import PT_LOAD
from icf.errors import IcfError
from icf.log import warn
from unwind.program.program import Program
from unwind.resolve.places import Places, followed_call

_FEWEST = 8  # return addresses to judge by
_PAGE_BYTES = 0x1000
_PAGES = 16  # to try in each direction
_TRIED_FIRST = 128  # addresses
_NEAR_BITS = 32  # of the addresses of images as linked; the kernel loads most of them beyond


def warn_of_bases(places: Places, image_path: str, hint: str) -> None:
    """Report each module most of whose return addresses do not fit; `image_path` is of `-e`, or empty."""
    for module, tally in places.tallies.items():
        misfits = tally.count - tally.fits
        if 2 * misfits <= tally.count:
            continue
        path = module.path or image_path
        shift = find_shift(tally.program, tally.addresses, path) if tally.count >= _FEWEST else 0
        far = sum(at >> _NEAR_BITS > 0 for at in tally.addresses)
        if image_path and not shift and 2 * tally.outside > tally.count and 2 * far > len(tally.addresses):
            warn(
                f"{path}: {tally.outside:,} of {tally.count:,} return addresses lie outside of its code:"
                " are they run-time addresses?",
                "say with --modules what was loaded where, or name the process with --pid",
            )
        elif tally.count >= _FEWEST:
            better = f" With {abs(shift):#x} {'added' if shift > 0 else 'taken off'} they do." if shift else ""
            warn(
                f"{path}: {misfits:,} of {tally.count:,} return addresses do not follow a call: wrong base?{better}",
                hint,
            )


def find_shift(program: Program, addresses: Sequence[int], path: str) -> int:
    """Return the number to add to nearly all `addresses`, as linked, so that they follow a call; 0: there is none."""
    best, best_count = 0, 0
    for shift in dict.fromkeys(_shifts(path)):
        count = _fitting(program, addresses[:_TRIED_FIRST], shift)
        if count > best_count:
            best, best_count = shift, count
    return best if 10 * _fitting(program, addresses, best) > 9 * len(addresses) else 0


def _fitting(program: Program, addresses: Sequence[int], shift: int) -> int:
    return sum(at + shift > 0 and followed_call(program, at + shift) != 0 for at in addresses)


def _shifts(path: str) -> Iterator[int]:
    from icf.elf.image import Image  # few runs need it

    try:
        with Image.open(path) as image:
            for segment in image.segments:
                if segment.type == PT_LOAD and segment.vaddr != segment.offset:
                    yield segment.vaddr - segment.offset
                    yield segment.offset - segment.vaddr
    except IcfError:
        pass  # the symcache was there, the image is elsewhere
    for page in range(1, _PAGES + 1):
        yield page * _PAGE_BYTES
        yield -page * _PAGE_BYTES
