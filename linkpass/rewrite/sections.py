"""Puts sections into a linked image, and leaves every loaded byte as it is.

    edits = [SectionEdit(".debug_dcall", table)]
    rewrite(image, "b.out", edits)    # atomically, also over the image itself, and only if all else is as it was

Loaded bytes stay where they are: the headers, segments and allocated sections come first in a file
that a linker wrote, and are copied as one block. The sections that are not loaded follow;
only the section headers refer to their file offsets. That tail is laid out afresh: the
sections in their old order, but those last that a pass may change; then the edited ones, the name table, and the
header table, without gaps beyond alignment.

    headers, segments | .comment .debug_str ... .strtab | .debug_info    .debug_abbrev .symtab | .debug_dcall .shstrtab
    copied as a block | copied, or left out             | copied, grown  copied or new         | new, then the headers

So offsets are a function of the sections and not of the history: a second run with the same edits
makes the same bytes, and no dead bytes pile up. Added sections get the last indices. Only a removal
renumbers: then symbols and links follow (`linkpass.rewrite.symbols`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from icf.elf.types import ET_REL
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.rewrite.file import Replacement
from linkpass.rewrite.layout import Layout, plan_layout

if TYPE_CHECKING:
    from icf.elf.image import Image


def rewrite(
    image: Image,
    out_path: str | os.PathLike[str],
    edits: Sequence[SectionEdit],
    growths: Sequence[SectionGrowth] = (),
    removals: Sequence[str] = (),
    *,
    is_durable: bool = False,
) -> None:
    """Write the image with these changes to `out_path`, which may be the image's own path.

    Removals that name no section are ignored. The file appears complete or not at all, with mode and owner of
    the input; it is read again before, and compared with the input (`linkpass.rewrite.check`). `is_durable`: see
    `linkpass.rewrite.file`.
    """
    with Replacement(out_path, image.path, image.fileno()) as new:
        finish_rewrite(image, new, edits, growths, removals, is_durable=is_durable)


def finish_rewrite(
    image: Image,
    new: Replacement,
    edits: Sequence[SectionEdit],
    growths: Sequence[SectionGrowth] = (),
    removals: Sequence[str] = (),
    *,
    before_replacing: Callable[[str], None] | None = None,
    is_durable: bool = False,
    laid_out: Callable[[Layout], None] | None = None,
) -> None:
    """Do the same with a new file that was begun.

    `before_replacing` is called with the complete file under its temporary name: if it raises, the target stays as it
    is. `laid_out` is called with the layout of the file that was written.
    """
    layout = plan_layout(image, edits, growths, removals)  # from here on no size changes

    def check_written(temporary: str) -> None:
        from icf.elf.image import Image
        from linkpass.rewrite.check import check_images

        with Image.open(temporary, allow_rel=image.elf_type == ET_REL) as out:
            out.path = new.path  # the path that errors are to name
            check_images(image, out, edits, growths, removals)
        if before_replacing is not None:
            before_replacing(temporary)

    new.finish(layout, check_written, is_durable=is_durable)
    if laid_out is not None:
        laid_out(layout)
