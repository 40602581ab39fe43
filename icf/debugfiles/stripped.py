"""Images without symbols and debug information, and hints for their users."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icf.elf.image import Image

STRIPPED_HINT = (
    "give its debug file (--debug-file), or link with 'icf link --in-image' and strip with --keep-section='.debug_*'"
)


def is_stripped(image: Image) -> bool:
    """Return whether neither the image nor its debug file, if it has one, has a symbol table or debug information."""
    files = (image, image.debug)
    return bool(image.sections) and not any(
        file.section(name) for file in files for name in (".symtab", ".debug_info", ".gnu_debugdata")
    )


def tables_hint(path: str) -> str:
    """Return the hint for an image without tables."""
    from icf.errors import IcfError
    from icf.image import open_any_image
    from icf.pe.sidetable import PASS_HINT

    try:
        with open_any_image(path) as image:
            if image.format == "PE":
                return PASS_HINT
            stripped = is_stripped(image)
    except (IcfError, OSError):
        stripped = False
    return f"it is stripped: {STRIPPED_HINT}" if stripped else f"run 'icf pass {path}'"
