"""Which file has the tables of an image: itself, or its separate debug file."""

from __future__ import annotations

from icf.elf.image import Image

SECTIONS = (".debug_icf", ".debug_dcall", ".debug_vcall")


def file_with_tables(image: Image) -> Image:
    """The image if it has any of the tables, else the file with its debug information, where they would be."""
    return image if any(image.section(name) is not None for name in SECTIONS) else image.debug
