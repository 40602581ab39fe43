"""The file that has the tables of an image, itself or its separate debug file, and whether they are about its code."""

from __future__ import annotations

from icf.elf.image import Image
from icf.log import warn
from icf.tables.icftable import parse_icf_header

ICF = ".debug_icf"
SECTIONS = (ICF, ".debug_dcall", ".debug_vcall")
_said: set[str] = set()  # paths of images for which the warning has been written


def file_with_tables(image: Image) -> Image:
    """Return the image if it has any of the tables, else the file with its debug information, where they would be."""
    return image if any(image.section(name) is not None for name in SECTIONS) else image.debug


def are_stale(image: Image) -> bool:
    """Return whether the tables of an image are about other code than it has, so that they count as absent."""
    file = file_with_tables(image)
    header = parse_icf_header(file.contents(ICF), file.path)
    return header is not None and header.code_digest not in (b"", image.code_digest or header.code_digest)


def has_tables(image: Image) -> bool:
    """Return whether an image has tables that are about its code; warn if they are about other code."""
    if file_with_tables(image).section(ICF) is None:
        return False
    if not are_stale(image):
        return True
    warn_stale(image.path)
    return False


def warn_stale(path: str) -> None:
    """Report, once for each image, that its tables are not used."""
    if path not in _said:
        _said.add(path)
        warn(f"{stale_line(path)}: they are not used")


def stale_line(path: str) -> str:
    """Return the warning about an image whose tables are about other code."""
    return f"{path}: its code has changed since its call-site tables were written"
