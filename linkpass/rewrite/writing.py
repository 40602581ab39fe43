"""Writes the files of a pass: the one that gets the tables, and the one that refers to it by its CRC."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from icf.debugfiles.links import DEBUGLINK, DebugLink, crc_of, parse_debuglink
from icf.elf.image import Image
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.rewrite.file import replace_file
from linkpass.rewrite.layout import Layout, Piece
from linkpass.rewrite.outputs import Outputs
from linkpass.rewrite.sections import rewrite


def write_outputs(
    image: Image,
    outputs: Outputs,
    edits: Sequence[SectionEdit] = (),
    growths: Sequence[SectionGrowth] = (),
    removals: Sequence[str] = (),
    *,
    is_durable: bool = False,
    laid_out: Callable[[Layout], None] | None = None,
) -> None:
    """Write the changes to the file that gets the tables, and the new CRC to the other.

    With `is_durable` a file that replaces its input is on the disk when this returns. `laid_out` is called with the
    layout of an image that gets the tables.
    """
    if outputs.debug is None:
        rewrite(image, outputs.image, edits, growths, removals, is_durable=is_durable, laid_out=laid_out)
        return
    new_debug = outputs.debug
    link, section = parse_debuglink(image), image.section(DEBUGLINK)
    if link is None or section is None or not _is_meant(image, link):
        if not _is_same(outputs.image, image.path):
            rewrite(image, outputs.image, [])
        rewrite(image.debug, new_debug, edits, growths, is_durable=is_durable)
        return
    crc_offset = section.offset + link.crc_offset

    def write_debug(new_image: str) -> None:
        def renew_crc(written: str) -> None:
            with Image.open(written) as debug, open(new_image, "r+b") as file:
                file.seek(crc_offset)
                file.write(crc_of(debug.data).to_bytes(4, "little"))

        rewrite(image.debug, new_debug, edits, growths, before_replacing=renew_crc, is_durable=is_durable)

    whole = Layout((Piece(0, len(image.data)),), len(image.data))
    replace_file(outputs.image, image.path, image.fileno(), whole, write_debug, is_durable=is_durable)


def _is_meant(image: Image, link: DebugLink) -> bool:
    """Return whether the debug link is about the debug file that was read."""
    return link.name == os.path.basename(image.debug.path) or link.crc == crc_of(image.debug.data)


def _is_same(path: str, other: str) -> bool:
    return os.path.exists(path) and os.path.samefile(path, other)
