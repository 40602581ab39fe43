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
from typing import NamedTuple

from icf.debugfiles.links import parse_debuglink
from icf.elf.image import Image
from icf.errors import IcfError


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
