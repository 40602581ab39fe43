"""The files that a pass writes: the image, its separate debug file, or both.

    debug information is in     tables go to      changed besides
    the image                   the image
    a debug file                the debug file    the CRC in .gnu_debuglink of the image, if it has one
    a debug file, --in-image    the image

The CRC is that of the whole debug file, so debuggers would refuse the new one without it. Both files are complete
under temporary names before either is replaced, the debug file first. A run that is killed between the two leaves
an old CRC; where there are build ids, the next run, finding the tables, corrects it. Build ids never change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from icf.debugfiles.links import DEBUGLINK, DebugLink, crc_of, parse_debuglink
from icf.elf.image import Image
from icf.errors import IcfError
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.rewrite.file import replace_file
from linkpass.rewrite.layout import Layout, Piece
from linkpass.rewrite.sections import rewrite


class Outputs(NamedTuple):
    """The files to write; `debug` None: the image gets the tables."""

    image: str
    debug: str | None

    @property
    def tables(self) -> str:
        """The file that has the tables in the end."""
        return self.image if self.debug is None else self.debug


def plan_outputs(image: Image, out: str | None, debug_out: str | None, *, in_image: bool) -> Outputs:
    """Return where the pass over `image` writes; `out` None: over its input."""
    if out == "" or debug_out == "":
        raise IcfError("the name of an output is empty")
    is_in_place = out is None or (os.path.exists(out) and os.path.samefile(out, image.path))
    target = image.path if out is None else out
    if image.debug is image or in_image:
        if debug_out is not None:
            raise IcfError(f"{debug_out}: no debug file is written: the tables of {image.path} go into it itself")
        return Outputs(target, None)
    if debug_out is not None or is_in_place:
        return Outputs(target, debug_out or image.debug.path)
    link = parse_debuglink(image)
    beside = os.path.join(os.path.dirname(target), link.name if link else os.path.basename(image.debug.path))
    if os.path.exists(beside) and os.path.samefile(beside, image.debug.path):
        raise IcfError(
            f"{beside}: would get the tables, and no longer be the file that {image.path} refers to",
            hint="name the new debug file with --debug-out, or leave -o out to replace both files",
        )
    return Outputs(target, beside)


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
