"""Finds the separate debug file of an image that was stripped.

    objcopy --only-keep-debug shop shop.debug; strip -g shop; objcopy --add-gnu-debuglink=shop.debug shop
    eu-strip -f shop.debug shop

The search goes in this order, R being each of the roots (default: /usr/lib/debug):

    R/.build-id/ab/cdef.debug        where the build id is abcdef
    D/shop.debug                     D is the directory of the image, shop.debug the name in its .gnu_debuglink
    D/.debug/shop.debug
    R/D/shop.debug, R/shop.debug
    debuginfod servers, by build id (`icf.remote.debuginfod`)

A file belongs to the image if its code lies at the same addresses and the same link made it. Equal build ids show that.
The CRC of the debug link shows that the file has not changed since. The link pass does change the file, and renews the
CRC; if it was interrupted between the two, equal build ids and tables in the file are enough. A file that does not
belong is never read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from icf.debugfiles.links import DebugLink, crc_of, parse_debuglink
from icf.elf.image import Image
from icf.elf.types import SHF_EXECINSTR
from icf.errors import IcfError

SYSTEM_ROOT = "/usr/lib/debug"


def open_debug_file(image: Image, path: str) -> Image:
    """Return the debug file that the user has named. Raise IcfError if it does not belong to the image."""
    image.looked_for.append(path)
    debug = Image.open(path)
    link = parse_debuglink(image)
    if link is not None and link.name != os.path.basename(path) and image.build_id and debug.build_id:
        link = None  # it is about another file of that build
    problem = _mismatch(image, debug, link)
    if problem:
        raise IcfError(f"{path}: does not belong to {image.path}: {problem}")
    return debug


def find_debug_file(image: Image, roots: Sequence[str]) -> tuple[Image | None, list[str]]:
    """Return the debug file of the image, if there is one.

    And a line for each file that was found but does not belong.
    """
    refused = []
    link = parse_debuglink(image)
    for path, is_linked in _candidates(image, link, roots):
        image.looked_for.append(path)
        if not has_content(path) or os.path.samefile(path, image.path):
            continue
        try:
            debug = Image.open(path)
            problem = _mismatch(image, debug, link if is_linked else None)
        except IcfError as error:
            refused.append(str(error))
            continue
        if not problem:
            return debug, []
        refused.append(f"{path}: does not belong to {image.path}: {problem}")
    return None, refused


def build_id_path(root: str, build_id: bytes) -> str:
    """Return the path of the debug file with that build id in a tree of debug files."""
    digits = build_id.hex()
    return os.path.join(root, ".build-id", digits[:2], f"{digits[2:]}.debug")


def _candidates(image: Image, link: DebugLink | None, roots: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield paths, and whether the debug link names each."""
    if len(image.build_id) > 1:
        for root in roots:
            yield build_id_path(root, image.build_id), False
    if link is not None:
        folder = os.path.dirname(os.path.realpath(image.path))
        yield os.path.join(folder, link.name), True
        yield os.path.join(folder, ".debug", link.name), True
        for root in roots:
            yield os.path.join(root, folder.lstrip("/"), link.name), True
            yield os.path.join(root, link.name), True
    if image.asks_servers and (fetched := path_from_servers(image.build_id)):
        yield fetched, False


def path_from_servers(build_id: bytes) -> str:
    """Return where debug information of a build is or would be, once servers were asked; empty if none can have it."""
    from icf.remote.debuginfod import Kind, find, kept_path

    find(build_id, Kind.DEBUG_INFO)
    return kept_path(build_id, Kind.DEBUG_INFO)


def has_content(path: str) -> bool:
    """Return whether a file is there; an empty one in the folder of fetched files says that no server has it."""
    return os.path.isfile(path) and os.path.getsize(path) > 0


def _mismatch(image: Image, debug: Image, link: DebugLink | None) -> str:
    """Return the reason why `debug` is not of the same link as `image`; empty if it is."""
    if debug.machine is not image.machine:
        return f"it is for {debug.machine.name}"
    if image.build_id and debug.build_id and image.build_id != debug.build_id:
        return f"build id {debug.build_id.hex()}, not {image.build_id.hex()}"
    if _code_of(image) != _code_of(debug):
        return "its code lies at other addresses"
    same_build = bool(image.build_id) and image.build_id == debug.build_id
    if link is None or (same_build and debug.section(".debug_icf") is not None):
        return ""
    crc = crc_of(debug.data)
    return "" if crc == link.crc else f"CRC {crc:#010x}, .gnu_debuglink has {link.crc:#010x}"


def _code_of(image: Image) -> list[tuple[int, int]]:
    return sorted((s.vaddr, s.size_bytes) for s in image.sections if s.flags & SHF_EXECINSTR and s.is_alloc)
