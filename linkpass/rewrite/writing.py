"""Writes the files of a pass: the one that gets the tables, and the one that refers to it by its CRC.

with OutputFiles(image, outputs) as files:
    files.copy_ahead(background)    # a thread copies what no pass changes
    ...
    files.write(edits, growths)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Self

from icf.debugfiles.links import DEBUGLINK, DebugLink, crc_of, parse_debuglink
from icf.elf.image import Image
from linkpass.background import Background
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.rewrite.file import Replacement, replace_file
from linkpass.rewrite.layout import Layout, Piece, plan_copies
from linkpass.rewrite.outputs import Outputs
from linkpass.rewrite.sections import finish_rewrite, rewrite


class OutputFiles:
    """The new files of a pass over `image`; a context, without an effect unless `write` has succeeded.

    `removals`: sections that an image loses which gets the tables itself. With `is_durable` a file that replaces its
    input is on the disk when `write` returns. `laid_out` is called with the layout of an image that gets the tables.
    """

    def __init__(
        self,
        image: Image,
        outputs: Outputs,
        removals: Sequence[str] = (),
        *,
        is_durable: bool = False,
        laid_out: Callable[[Layout], None] | None = None,
    ) -> None:
        self.outputs = outputs
        self._image, self._is_durable, self._laid_out = image, is_durable, laid_out
        self._removals = removals if outputs.debug is None else ()
        self._source = image if outputs.debug is None else image.debug
        self._new = Replacement(outputs.tables, self._source.path, self._source.fileno())

    def __enter__(self) -> Self:
        self._new.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._new.__exit__(kind, *rest)

    def copy_ahead(self, background: Background) -> None:
        """Let a thread copy what no pass changes of the file that gets the tables."""
        self._new.copy_ahead(plan_copies(self._source, self._removals), background)

    def write(self, edits: Sequence[SectionEdit] = (), growths: Sequence[SectionGrowth] = ()) -> None:
        """Write the changes to the file that gets the tables, and the new CRC to the other."""
        image, outputs = self._image, self.outputs
        if outputs.debug is None:
            self._finish(edits, growths, laid_out=self._laid_out)
            return
        link, section = parse_debuglink(image), image.section(DEBUGLINK)
        if link is None or section is None or not _is_meant(image, link):
            if not _is_same(outputs.image, image.path):
                rewrite(image, outputs.image, [])
            self._finish(edits, growths)
            return
        crc_offset = section.offset + link.crc_offset

        def write_debug(new_image: str) -> None:
            def renew_crc(written: str) -> None:
                with Image.open(written) as debug, open(new_image, "r+b") as file:
                    file.seek(crc_offset)
                    file.write(crc_of(debug.data).to_bytes(4, "little"))

            self._finish(edits, growths, before_replacing=renew_crc)

        whole = Layout((Piece(0, len(image.data)),), len(image.data))
        replace_file(outputs.image, image.path, image.fileno(), whole, write_debug, is_durable=self._is_durable)

    def _finish(
        self,
        edits: Sequence[SectionEdit],
        growths: Sequence[SectionGrowth],
        before_replacing: Callable[[str], None] | None = None,
        laid_out: Callable[[Layout], None] | None = None,
    ) -> None:
        finish_rewrite(
            self._source,
            self._new,
            edits,
            growths,
            self._removals,
            before_replacing=before_replacing,
            is_durable=self._is_durable,
            laid_out=laid_out,
        )


def _is_meant(image: Image, link: DebugLink) -> bool:
    """Return whether the debug link is about the debug file that was read."""
    return link.name == os.path.basename(image.debug.path) or link.crc == crc_of(image.debug.data)


def _is_same(path: str, other: str) -> bool:
    return os.path.exists(path) and os.path.samefile(path, other)
