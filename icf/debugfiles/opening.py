"""Open an image together with its debug file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icf.errors import IcfError
from icf.log import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icf.elf.image import Image
    from icf.image import AnyImage


def open_any(path: str, debug_file: str | None, roots: Sequence[str]) -> AnyImage:
    """Open an image of any format with its debug file or PDB, as `open_with_debug` does; raise IcfError."""
    from icf.image import open_any_image

    image = open_any_image(path)
    try:
        if image.format == "PE":
            from icf.pe.debugfile import attach_pdb

            attach_pdb(image, debug_file, roots)
            if image.pdb is None:
                from icf.debugfiles.pdb_servers import attach_pdb_of_server

                attach_pdb_of_server(image)
            from icf.pe.dwarf import attach_dwarf

            attach_dwarf(image)
        else:
            _attach(image, debug_file, roots, in_build=False)
    except BaseException:
        image.close()
        raise
    return image


def open_with_debug(
    path: str, debug_file: str | None, roots: Sequence[str], *, in_build: bool = False, needs_code: bool = False
) -> Image:
    """Open an image with its debug file, if it needs one and has one.

    A file that was found in its place and does not belong is refused with a line on stderr. With `in_build` that is an
    `IcfError`, and no server is asked: the file is changed together with the image. With `needs_code` the image may not
    be a debug file itself.
    """
    from icf.image import open_image

    image = open_image(path)
    try:
        if needs_code and image.is_debug_file:
            raise IcfError(
                f"{path}: is a separate debug file, without code",
                hint="name the image that it belongs to, and this file with --debug-file",
            )
        _attach(image, debug_file, roots, in_build=in_build)
    except BaseException:
        image.close()
        raise
    return image


def _attach(image: Image, debug_file: str | None, roots: Sequence[str], *, in_build: bool) -> None:
    if debug_file is None:
        attach_debug(image, roots, in_build=in_build)
        return
    from icf.debugfiles.search import open_debug_file

    image.debug_roots, image.asks_servers = tuple(roots), not in_build
    image.attach_debug(open_debug_file(image, debug_file))


def attach_debug(image: Image, roots: Sequence[str], *, in_build: bool = False) -> None:
    """Find the debug file of an image and attach it, if the image needs one; errors are those of `open_with_debug`."""
    image.debug_roots, image.asks_servers = tuple(roots), not in_build
    if image.section(".debug_info") is not None or image.is_debug_file:
        return
    from icf.debugfiles.search import SYSTEM_ROOT, find_debug_file

    debug, refused = find_debug_file(image, (*roots, SYSTEM_ROOT))
    if debug is not None:
        image.attach_debug(debug)
    elif refused and in_build:
        raise IcfError(refused[0], hint="name the right file with --debug-file, or remove this one")
    for line in refused:
        warn(f"{line}: not used")
