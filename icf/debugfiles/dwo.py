"""Places of the files of split DWARF (-gsplit-dwarf): a package for the whole image, or a .dwo for each unit.

    IMAGE.dwp, DEBUGFILE.dwp, R/IMAGE.dwp     R: each of the roots that the user has named
    COMP_DIR/NAME.dwo                         as the compiler wrote it, both being in the skeleton unit
    R/NAME.dwo, D/NAME.dwo                    D: the directory of the image; NAME also without its directories

Some of these places may have no file, or one of another build: units are matched by their id.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from icf.elf.image import Image


def package_paths(image: Image) -> Iterator[str]:
    """Yield places of a .dwp."""
    paths = [file.path for file in (image, image.debug)]
    yield from dict.fromkeys(f"{path}.dwp" for path in paths)
    for root in image.debug_roots:
        yield os.path.join(root, f"{os.path.basename(image.path)}.dwp")


def split_paths(image: Image, comp_dir: str, name: str) -> Iterator[str]:
    """Yield places of the .dwo that a skeleton unit names; the first is where the compiler put it."""
    yield os.path.join(comp_dir, name)
    folders = (*image.debug_roots, os.path.dirname(image.path))
    relative = name.lstrip("/")
    for folder in folders:
        yield from dict.fromkeys(os.path.join(folder, part) for part in (relative, os.path.basename(name)))
